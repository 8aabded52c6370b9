// The submit page where scripts run: an editor in place of the textarea, files read into it, and
// the marks of the live check at their lines.
(() => {
  const textarea = document.getElementById("id_script");
  const form = document.getElementById("submit-form");
  const nonce = document.querySelector("script[nonce]").nonce;
  const label = document.querySelector("label[for=id_script]").textContent;
  const editor = window.CarrelEditor({
    textarea,
    nonce,
    label,
    describedBy: textarea.getAttribute("aria-describedby"),
    onChange: () => textarea.dispatchEvent(new Event("input", { bubbles: true })),
  });
  textarea.hidden = true;
  document.querySelector("label[for=id_script]").addEventListener("click", (event) => {
    event.preventDefault();
    editor.focus();
  });

  // Empty fields show what the script says in their place; whose word it is stands below them.
  const fields = [...form.querySelectorAll("input[placeholder], textarea[placeholder]")];
  for (const field of fields) field.dataset.usual = field.placeholder;
  const lists = [...form.querySelectorAll("select")].map((list) => list.options[0]).filter((first) => first?.value === "");
  for (const first of lists) first.dataset.usual = first.textContent;
  const mark = () => {
    const check = document.querySelector("#check [data-marks]");
    if (!check) return;
    editor.setMarks(JSON.parse(check.dataset.marks));
    const said = JSON.parse(check.dataset.said);
    for (const first of lists) {
      first.textContent = said[first.parentElement.name] || first.dataset.usual;
    }
    for (const field of fields) field.placeholder = said[field.name] || field.dataset.usual;
    for (const field of form.querySelectorAll(".field [name]")) {
      field.closest(".field").toggleAttribute("data-from-script", Boolean(said[field.name]) && !field.value);
    }
  };
  document.getElementById("check").addEventListener("htmx:afterSwap", mark);

  // What is wrong leads to where it is.
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[data-line], a[href^='#id_']");
    if (!link || !form.contains(link)) return;
    event.preventDefault();
    if (link.dataset.line) {
      editor.toLine(Number(link.dataset.line));
      return;
    }
    const field = document.getElementById(link.hash.slice(1));
    if (field === textarea) editor.focus();
    if (!field) return;
    field.closest("details")?.setAttribute("open", "");
    field.focus();
  });

  const file = document.getElementById("id_script_file");
  const problem = document.createElement("p");
  problem.className = "field-error";
  problem.setAttribute("role", "alert");
  const take = async (chosen) => {
    problem.remove();
    try {
      if (chosen.size > 1000000) throw new Error(`${chosen.name} has more than 1,000,000 bytes.`);
      const bytes = await chosen.arrayBuffer();
      editor.setText(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
    } catch (error) {
      problem.textContent = error instanceof TypeError ? `${chosen.name} is no text in UTF-8.` : error.message;
      document.getElementById("script-errors").append(problem);
    }
    file.value = "";
  };
  file.addEventListener("change", () => file.files[0] && take(file.files[0]));
  form.addEventListener("dragover", (event) => {
    if ([...event.dataTransfer.types].includes("Files")) event.preventDefault();
  });
  form.addEventListener("drop", (event) => {
    if (!event.dataTransfer.files.length) return;
    event.preventDefault();
    take(event.dataTransfer.files[0]);
  });
  const first = document.querySelector("#script-errors [data-line]");
  if (first) editor.toLine(Number(first.dataset.line));
})();
