// A log that is followed: whenever the server says it has grown, the next range is fetched and
// appended. Lines end up in blocks, of which the oldest are let go, so that a page stays small
// however much a job prints. The server escapes all text; nothing here makes HTML of its own.
(() => {
  const MOST_CHARACTERS = 1024 * 1024;
  const TOO_FAR_BEHIND = 512 * 1024;
  const RETRY_MS = 5000;
  const NEAR_PX = 40;
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  const inUnits = (bytes) => {
    let unit = 0;
    for (; bytes >= 1024 && unit < 4; unit += 1) bytes /= 1024;
    return `${bytes >= 100 || bytes % 1 === 0 ? Math.round(bytes) : bytes.toFixed(1)} ${units[unit]}`;
  };

  class Log {
    constructor(root) {
      this.root = root;
      this.address = root.dataset.log;
      this.start = Number(root.dataset.start);
      this.next = Number(root.dataset.next);
      this.text = root.querySelector(".log-text");
      this.open = root.querySelector("[data-log-open]");
      this.status = root.querySelector("[data-log-status]");
      this.earlier = root.querySelector("[data-log-earlier]");
      this.busy = false;
      this.again = false;
      const first = root.querySelector("[data-log-lines]");
      first.dataset.end = this.next;
      this.blocks = [first];
      this.size = first.textContent.length;
      const part = document.getElementById("log-part") || document;
      this.box = part.querySelector("[data-log-follow] input");
      this.whole = root.dataset.whole === "yes";
      this.earlier.addEventListener("click", (event) => this.loadEarlier(event));
      if (!this.whole) {
        this.scrollToMiddle();
        return;
      }
      this.box.parentElement.hidden = !("live" in root.dataset);
      this.box.addEventListener("change", () => this.follow() && this.toEnd());
      this.text.addEventListener("scroll", () => this.noticeScroll());
      root.addEventListener(`sse:${root.dataset.topic}`, () => this.fetchNext());
      this.toEnd();
      this.fetchNext();
    }

    follow() { return this.box.checked; }

    atEnd() {
      return this.text.scrollHeight - this.text.scrollTop - this.text.clientHeight < NEAR_PX;
    }

    // Scrolling up is the wish to read: following stops, and goes on at the end again.
    noticeScroll() {
      if (this.moving) return;
      this.box.checked = this.atEnd();
    }

    toEnd() {
      this.moving = true;
      this.text.scrollTop = this.text.scrollHeight;
      requestAnimationFrame(() => { this.moving = false; });
    }

    scrollToMiddle() { this.text.scrollTop = (this.text.scrollHeight - this.text.clientHeight) / 2; }

    async ask(query) {
      const answer = await fetch(`${this.address}&${query}`, { headers: { Accept: "application/json" } });
      if (answer.redirected) throw new Error("You are signed out. Load the page again.");
      const found = await answer.json();
      if (!answer.ok) throw new Error(`${found.message} ${found.advice}`);
      return found;
    }

    async fetchNext() {
      if (this.busy) {
        this.again = true;
        return;
      }
      this.busy = true;
      clearTimeout(this.retry);
      try {
        do {
          this.again = false;
          const found = await this.ask(`offset=${this.next}`);
          if (!this.root.isConnected) return;
          if (this.follow() && found.size - found.next > TOO_FAR_BEHIND) {
            this.jump(await this.ask(""));
            break;
          }
          this.append(found);
          if (found.more) this.again = true;
        } while (this.again);
      } catch (error) {
        this.status.textContent = `Not up to date: ${error.message}`;
        this.retry = setTimeout(() => this.root.isConnected && this.fetchNext(), RETRY_MS);
      } finally {
        this.busy = false;
      }
    }

    // Nobody reads what rushes by: show the end, and let "earlier" bring the rest.
    jump(found) {
      for (const block of this.blocks.splice(0)) block.remove();
      this.size = 0;
      this.start = found.start;
      this.append(found);
      this.showStart();
    }

    append(found) {
      const stay = !this.follow();
      if (found.lines) {
        const block = document.createElement("span");
        block.insertAdjacentHTML("afterbegin", found.lines);
        block.dataset.end = found.next;
        this.open.before(block);
        this.blocks.push(block);
        this.size += block.textContent.length;
        if (!stay) this.letGo();
      }
      this.open.replaceChildren();
      this.open.insertAdjacentHTML("afterbegin", found.open);
      this.next = found.next;
      this.status.textContent = found.size ? inUnits(found.size) : "It has printed nothing yet.";
      if (!stay) this.toEnd();
    }

    letGo() {
      while (this.size > MOST_CHARACTERS && this.blocks.length > 1) {
        const gone = this.blocks.shift();
        this.size -= gone.textContent.length;
        this.start = Number(gone.dataset.end);
        gone.remove();
      }
      this.showStart();
    }

    showStart() {
      this.earlier.hidden = this.start === 0;
      this.earlier.querySelector("[data-log-start]").textContent = inUnits(this.start);
    }

    async loadEarlier(event) {
      event.preventDefault();
      if (this.loading) return;
      this.loading = true;
      if (this.box) this.box.checked = false;
      try {
        const found = await this.ask(`before=${this.start}`);
        const block = document.createElement("span");
        block.insertAdjacentHTML("afterbegin", found.lines);
        block.dataset.end = this.start;
        const height = this.text.scrollHeight;
        this.text.prepend(block);
        this.moving = true;
        this.text.scrollTop += this.text.scrollHeight - height;
        requestAnimationFrame(() => { this.moving = false; });
        this.blocks.unshift(block);
        this.size += block.textContent.length;
        this.start = found.start;
        this.showStart();
      } catch (error) {
        this.status.textContent = error.message;
      } finally {
        this.loading = false;
      }
    }
  }

  const wake = (root) => {
    for (const log of root.querySelectorAll("[data-log]:not([data-awake])")) {
      log.dataset.awake = "yes";
      new Log(log);
    }
  };
  wake(document);
  // A server that does not answer for a node must not look like one that is still at it.
  for (const name of ["htmx:responseError", "htmx:sendError", "htmx:timeout"]) {
    document.addEventListener(name, (event) => {
      const words = document.querySelector("#log-part .log-loading");
      if (words && event.detail.elt.id === "log-part") words.textContent = "could not be loaded: it may lie on a node that does not answer.";
    });
  }
  document.addEventListener("htmx:load", (event) => wake(event.target.parentElement || document));
})();
