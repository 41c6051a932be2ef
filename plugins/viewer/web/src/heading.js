// What the page says about its layer; written by the server for the first layer.

import { byId, element } from "./dom.js";

export function showHeading({ title, abstract, format, crs }) {
  const { service } = document.body.dataset;
  document.title = `${title} – ${service}`;
  byId("title").textContent = title;
  byId("abstract").textContent = abstract;
  byId("abstract").hidden = !abstract;
  byId("tags").replaceChildren(
    element("span", { className: "tag kind", textContent: format }),
    " ",
    element("span", { className: "tag", textContent: crs }),
  );
}
