// The list of request URLs with their Copy buttons.

import { copyText } from "./clipboard.js";
import { element } from "./dom.js";
import { t } from "./texts.js";

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
    const copy = element("button", { type: "button", textContent: t("copy"), "aria-label": t("copy-name", { name }) });
    copy.addEventListener("click", () => copyText(copy, () => field.value));
    const open = element("a", {
      textContent: t("open"),
      target: "_blank",
      rel: "noopener",
      "aria-label": t("open-name", { name }),
    });
    this.rows.push({ field, open });
    const heading = element("div", { className: "label" }, element("span", { textContent: label }), open, copy);
    return element("li", {}, heading, field);
  }
}
