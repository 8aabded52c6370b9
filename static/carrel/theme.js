// Before the first paint: the theme chosen here, or the one the system asks for.
(() => {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const words = { auto: "automatic", light: "light", dark: "dark" };
  const root = document.documentElement;

  const chosen = () => {
    try {
      return localStorage.getItem("carrel-theme") || "auto";
    } catch {
      return "auto";
    }
  };
  const keep = (theme) => {
    try {
      localStorage.setItem("carrel-theme", theme);
    } catch {
      // A browser that keeps nothing still switches this page.
    }
  };
  let theme = words[chosen()] ? chosen() : "auto";

  const show = () => {
    root.dataset.bsTheme = theme === "auto" ? (dark.matches ? "dark" : "light") : theme;
    const word = document.querySelector("[data-theme-word]");
    if (word) word.textContent = words[theme];
  };
  show();
  dark.addEventListener("change", show);
  document.addEventListener("DOMContentLoaded", () => {
    const button = document.querySelector("[data-theme-switch]");
    if (!button) return;
    button.hidden = false;
    button.addEventListener("click", () => {
      const order = ["auto", "light", "dark"];
      theme = order[(order.indexOf(theme) + 1) % order.length];
      keep(theme);
      show();
    });
    show();
  });
})();
