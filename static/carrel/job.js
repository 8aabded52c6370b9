// Small things of a job's page; live parts come and go, so all of it listens at the document.
(() => {
  document.addEventListener("click", async (event) => {
    const opener = event.target.closest("[data-dialog]");
    if (opener) {
      const dialog = document.getElementById(opener.dataset.dialog);
      if (!dialog) return;
      event.preventDefault();
      dialog.showModal();
      return;
    }
    if (event.target.closest("[data-close-dialog]")) {
      event.target.closest("dialog").close();
      return;
    }
    const copier = event.target.closest("[data-copy-text]");
    if (copier && navigator.clipboard) {
      const word = copier.querySelector("span");
      const before = word.textContent;
      await navigator.clipboard.writeText(copier.dataset.copyText);
      word.textContent = "Copied";
      setTimeout(() => { word.textContent = before; }, 2000);
    }
  });
  if (!navigator.clipboard) document.documentElement.classList.add("no-clipboard");
})();
