// What every page gains where scripts run; nothing here is needed to use it.
(() => {
  // A form that takes a while says so, and is sent once.
  const restore = [];
  document.addEventListener("submit", (event) => {
    const form = event.target;
    if (event.defaultPrevented || form.method !== "post") return;
    if (form.dataset.sent) {
      event.preventDefault();
      return;
    }
    form.dataset.sent = "yes";
    const button = event.submitter;
    if (!button) return;
    const before = button.innerHTML;
    button.setAttribute("aria-busy", "true");
    if (button.dataset.busy) button.textContent = button.dataset.busy;
    restore.push(() => {
      delete form.dataset.sent;
      button.removeAttribute("aria-busy");
      button.innerHTML = before;
    });
  });
  // Back from the history, the page is as it was left.
  window.addEventListener("pageshow", (event) => {
    if (event.persisted) restore.splice(0).forEach((undo) => undo());
  });

  // A page that is no longer told of changes says so, but not for a hiccup.
  const offline = document.getElementById("offline");
  let lost;
  document.addEventListener("htmx:sseError", () => {
    lost ??= setTimeout(() => { offline.hidden = false; }, 4000);
  });
  document.addEventListener("htmx:sseOpen", () => {
    clearTimeout(lost);
    lost = undefined;
    offline.hidden = true;
  });

  // Copy what stands beside the button.
  for (const button of document.querySelectorAll("[data-copy]")) {
    if (!navigator.clipboard) continue;
    button.hidden = false;
    button.addEventListener("click", async () => {
      const word = button.querySelector("span") || button;
      const before = word.textContent;
      try {
        await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent);
        word.textContent = "Copied";
      } catch {
        word.textContent = "Select and copy it";
      }
      setTimeout(() => { word.textContent = before; }, 2000);
    });
  }

  // Filters apply when changed; their button remains for those without scripts.
  for (const form of document.querySelectorAll("form[data-auto]")) {
    form.addEventListener("change", () => form.requestSubmit());
    form.querySelector("[data-auto-button]")?.setAttribute("hidden", "");
  }
})();
