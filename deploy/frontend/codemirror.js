// The script editor: CodeMirror with shell colours, #SBATCH lines set apart, and marks at lines.
// `window.CarrelEditor(options)` puts one before `options.textarea` and returns
// { setText(text), setMarks([{line, severity, message}]), focus(), toLine(number) }.
import {
  Decoration, EditorView, MatchDecorator, ViewPlugin, drawSelection, highlightActiveLine,
  highlightActiveLineGutter, highlightSpecialChars, keymap, lineNumbers,
} from "@codemirror/view";
import { Compartment, EditorState } from "@codemirror/state";
import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import {
  HighlightStyle, StreamLanguage, bracketMatching, indentUnit, syntaxHighlighting,
} from "@codemirror/language";
import { lintGutter, setDiagnostics } from "@codemirror/lint";
import { shell } from "@codemirror/legacy-modes/mode/shell";
import { python } from "@codemirror/legacy-modes/mode/python";
import { tags } from "@lezer/highlight";

const colours = HighlightStyle.define([
  { tag: tags.comment, class: "code-comment" },
  { tag: tags.meta, class: "code-meta" },
  { tag: [tags.keyword, tags.controlKeyword], class: "code-keyword" },
  { tag: [tags.string, tags.special(tags.string)], class: "code-string" },
  { tag: [tags.number, tags.atom, tags.bool], class: "code-number" },
  { tag: [tags.standard(tags.variableName), tags.function(tags.variableName)], class: "code-builtin" },
  { tag: [tags.definition(tags.variableName), tags.special(tags.variableName)], class: "code-variable" },
]);

const directive = new MatchDecorator({
  regexp: /^#SBATCH\b.*$/gm,
  decoration: Decoration.mark({ class: "code-directive" }),
});
const directives = ViewPlugin.fromClass(
  class {
    constructor(view) { this.decorations = directive.createDeco(view); }
    update(update) { this.decorations = directive.updateDeco(update, this.decorations); }
  },
  { decorations: (plugin) => plugin.decorations },
);

// Left to itself, Chromium keeps the look of what is replaced by a style attribute, which our
// content security policy refuses aloud.
const replacing = EditorView.domEventHandlers({
  beforeinput(event, view) {
    if (view.composing || view.state.selection.ranges.every((range) => range.empty)) return false;
    const typed = event.inputType === "insertText" && event.data;
    if (!typed && !event.inputType.startsWith("deleteContent")) return false;
    const change = view.state.replaceSelection(typed || "");
    view.dispatch({ ...change, scrollIntoView: true, userEvent: typed ? "input.type" : "delete.selection" });
    return true;
  },
});

function language(text) {
  return StreamLanguage.define(/^#!.*python/.test(text) ? python : shell);
}

window.CarrelEditor = function ({ textarea, nonce, label, describedBy, onChange }) {
  const mode = new Compartment();
  let first = textarea.value.split("\n", 1)[0];
  const attributes = { "aria-label": label, spellcheck: "false", autocorrect: "off", autocapitalize: "off" };
  if (describedBy) attributes["aria-describedby"] = describedBy;
  const watch = EditorView.updateListener.of((update) => {
    if (!update.docChanged) return;
    textarea.value = update.state.doc.toString();
    const line = update.state.doc.line(1).text;
    if (line !== first) {
      first = line;
      view.dispatch({ effects: mode.reconfigure(language(line)) });
    }
    onChange();
  });
  const view = new EditorView({
    state: EditorState.create({
      doc: textarea.value,
      extensions: [
        EditorView.cspNonce.of(nonce),
        lineNumbers(), highlightActiveLineGutter(), highlightSpecialChars(), history(),
        drawSelection(), bracketMatching(), highlightActiveLine(), lintGutter(),
        indentUnit.of("    "), EditorView.lineWrapping, directives, replacing,
        mode.of(language(textarea.value)), syntaxHighlighting(colours),
        // Tab is left to the browser: the keyboard must get out of the editor.
        keymap.of([...defaultKeymap, ...historyKeymap]),
        EditorView.contentAttributes.of(attributes), watch,
      ],
    }),
  });
  textarea.before(view.dom);
  return {
    setText(text) {
      view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: text } });
    },
    setMarks(marks) {
      const lines = view.state.doc.lines;
      const found = marks.filter((mark) => mark.line >= 1 && mark.line <= lines).map((mark) => {
        const line = view.state.doc.line(mark.line);
        return { from: line.from, to: line.to, severity: mark.severity, message: mark.message };
      });
      view.dispatch(setDiagnostics(view.state, found));
    },
    focus() { view.focus(); },
    toLine(number) {
      const line = view.state.doc.line(Math.min(Math.max(number, 1), view.state.doc.lines));
      view.dispatch({ selection: { anchor: line.from }, scrollIntoView: true });
      view.focus();
    },
  };
};
