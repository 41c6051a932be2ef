// The list of request URLs with their Copy buttons.

import { element } from "./dom.js";

const SHOWN = 1500;

export class RequestList {
  constructor(container) {
    this.container = container;
    this.rows = [];
    this.shape = "";
  }

  /** Show groups of requests. Unchanged rows keep their elements and therefore the focus. */
  show(groups) {
    const shape = JSON.stringify(groups.map(({ title, note, items }) => [title, note, items.map(({ label }) => label)]));
    if (shape !== this.shape) this.build(groups);
    this.shape = shape;
    groups
      .flatMap(({ items }) => items)
      .forEach(({ url, example }, at) => {
        const { field, open } = this.rows[at];
        field.value = url;
        field.title = url;
        open.href = example;
      });
  }

  build(groups) {
    this.rows = [];
    this.container.replaceChildren(
      ...groups.map(({ title, note, items }) =>
        element(
          "section",
          { className: "group" },
          element("h3", {}, title, note ? element("span", { className: "note", textContent: note }) : ""),
          element("ul", {}, ...items.map(({ label }) => this.row(`${title} ${label}`, label))),
        ),
      ),
    );
  }

  row(name, label) {
    const field = element("input", { type: "text", readOnly: true, "aria-label": name, spellcheck: false });
    field.addEventListener("focus", () => field.select());
    const copy = element("button", { type: "button", textContent: "Copy", "aria-label": `Copy ${name}` });
    copy.addEventListener("click", () => confirm(copy, field));
    const open = element("a", {
      textContent: "Open",
      target: "_blank",
      rel: "noopener",
      "aria-label": `Open ${name} in a new tab`,
    });
    this.rows.push({ field, open });
    const heading = element("div", { className: "label" }, element("span", { textContent: label }), open, copy);
    return element("li", {}, heading, field);
  }
}

async function confirm(button, field) {
  await copyText(field);
  button.textContent = "Copied";
  setTimeout(() => {
    button.textContent = "Copy";
  }, SHOWN);
}

async function copyText(field) {
  // The clipboard API exists only on secure origins.
  if (navigator.clipboard) {
    try {
      await navigator.clipboard.writeText(field.value);
      return;
    } catch {
      // Not permitted: try the old method.
    }
  }
  const before = document.activeElement;
  field.select();
  document.execCommand("copy");
  before?.focus();
}
