// Request URLs for the current view, which the server knows.

import { namesOf } from "./choice.js";
import { byId, html, render } from "./dom.js";
import { fetchJson } from "./fetching.js";
import { copyText } from "./taking.js";
import { boxIn, cellIn } from "./projections.js";
import { base, withoutCredential } from "./site.js";
import { t } from "./texts.js";

let question = new AbortController();

/** Show the requests of a page with the current layer, choice, view and options. */
export async function showRequests(page) {
  const { layer, view, set, choice, options } = page;
  byId("requests").setAttribute("aria-busy", true);
  question.abort();
  question = new AbortController();
  const box = boxIn(view.box, view.crs, set.crs);
  const query = new URLSearchParams({
    ...options,
    ...namesOf(choice),
    bbox: box ?? set.bbox,
    cell: cellIn(view.cellSize, view.crs, set.crs),
  });
  const url = `${base}/data/requests/${encodeURIComponent(layer.id)}?${query}`;
  const answer = await fetchJson(url, { signal: question.signal }).catch(() => null);
  if (!answer) return;
  byId("save-geotiff").href = answer.geotiff ?? "";
  byId("save-geotiff").hidden = !answer.geotiff;
  byId("requests-section").hidden = !answer.groups.length;
  render(answer.groups.map(group), byId("requests"));
  byId("requests").setAttribute("aria-busy", false);
}

function group({ title, note, items }) {
  return html`
    <section class="group">
      <h3>${title}${note && html`<span class="note">${note}</span>`}</h3>
      <ul>
        ${items.map((item) => row(`${title} ${item.label}`, item))}
      </ul>
    </section>
  `;
}

function row(name, { label, url, example }) {
  return html`
    <li>
      <div class="label">
        <span>${label}</span>
        <a href=${example} target="_blank" rel="noopener" aria-label=${t("open-name", { name })}>${t("open")}</a>
        <button type="button" aria-label=${t("copy-name", { name })} @click=${({ target }) => copyText(target, url)}>${t("copy")}</button>
      </div>
      <input type="text" readonly spellcheck="false" aria-label=${name} title=${withoutCredential(url)} .value=${withoutCredential(url)} @focus=${({ target }) => target.select()} />
    </li>
  `;
}
