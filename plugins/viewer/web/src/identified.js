// The feature information panel.

import { byId, element } from "./dom.js";
import { t } from "./texts.js";

/** Show the attributes of features ([{table, attributes}]); an empty list closes the panel. */
export function showFeatures(features) {
  const panel = byId("identified");
  panel.hidden = !features.length;
  if (!features.length) return;
  const close = element("button", { type: "button", className: "close", "aria-label": t("close") });
  close.addEventListener("click", () => {
    showFeatures([]);
    byId("map").focus({ preventScroll: true });
  });
  const [first, ...more] = features;
  const heading = more.length ? `${first.table} (${t("one-of", { count: features.length })})` : first.table;
  const rows = first.attributes.map(([name, value]) =>
    element(
      "tr",
      {},
      element("th", { textContent: name, scope: "row" }),
      element("td", { textContent: text(value) }),
    ),
  );
  panel.replaceChildren(
    element("div", { className: "heading" }, element("h2", { textContent: heading }), close),
    element("table", {}, element("tbody", {}, ...rows)),
  );
}

function text(value) {
  if (Array.isArray(value)) return value.join(", ");
  return value !== null && typeof value === "object" ? JSON.stringify(value) : String(value);
}
