// The event stream of a page, for htmx's sse extension. Over HTTP/1.1 a browser opens six
// connections to a host at most, so a page in a hidden tab gives its one back. Seen again, it
// connects anew; the server then names every topic once, and the page catches up.
(() => {
  class Stream extends EventTarget {
    #source = null;
    #kinds = new Set();
    #turn = () => (document.hidden ? this.#pause() : this.#open());

    constructor(url) {
      super();
      this.url = url;
      document.addEventListener("visibilitychange", this.#turn);
      if (!document.hidden) this.#open();
    }

    get readyState() {
      return this.#source ? this.#source.readyState : EventSource.CONNECTING;
    }

    addEventListener(kind, listener, options) {
      super.addEventListener(kind, listener, options);
      if (this.#kinds.has(kind)) return;
      this.#kinds.add(kind);
      if (this.#source) this.#pass(kind);
    }

    close() {
      document.removeEventListener("visibilitychange", this.#turn);
      this.#source?.close();
    }

    #open() {
      if (this.#source) return;
      this.#source = new EventSource(this.url, { withCredentials: true });
      this.#source.onopen = (event) => this.onopen?.(event);
      this.#source.onerror = (event) => {
        // Closed for good: htmx makes a new stream in place of this one.
        if (this.readyState === EventSource.CLOSED) document.removeEventListener("visibilitychange", this.#turn);
        this.onerror?.(event);
      };
      this.#kinds.forEach((kind) => this.#pass(kind));
    }

    #pause() {
      this.#source?.close();
      this.#source = null;
    }

    #pass(kind) {
      this.#source.addEventListener(kind, (event) => {
        this.dispatchEvent(new MessageEvent(kind, { data: event.data }));
      });
    }
  }
  htmx.createEventSource = (url) => new Stream(url);
})();
