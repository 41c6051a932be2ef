// Ready texts for other programs, and files of what the map shows.

import { mapUrl } from "./addresses.js";
import { copyText } from "./clipboard.js";
import { byId, element, fillSelect, say } from "./dom.js";
import { t } from "./texts.js";
import { visibleExtent } from "./visible.js";

let shown = [];

/** Offer the snippets of a layer. */
export function showSnippets(layer) {
  shown = layer.snippets;
  fillSelect(byId("program"), shown.map(({ id, title }) => [id, title]), byId("program").value);
  byId("snippet-field").hidden = !shown.length;
  showChosen();
}

function showChosen() {
  byId("snippet").textContent = chosen()?.text ?? "";
}

function chosen() {
  return shown.find(({ id }) => id === byId("program").value) ?? shown[0];
}

/** Return the URL of a georeferenced map of the view, or null if no service draws one. */
function geotiffUrl(layer, choice, view) {
  for (const source of layer.sources) {
    const set = layer.sets.find((one) => one === choice.set && source.crs?.includes(one.crs));
    const look = source.styles.find(({ style }) => style === choice.look.style) ?? source.styles[0];
    if (!source.geotiff || !set || !look) continue;
    const here = { source, set, look };
    const { box, width, height } = visibleExtent(view, here);
    return mapUrl(here, box, width, height, { format: source.geotiff, transparent: false });
  }
  return null;
}

/**
 * Bind the buttons.
 *
 * @param page with the current layer, choice and view
 */
export function bindTaking(page) {
  byId("program").addEventListener("change", showChosen);
  byId("copy-snippet").addEventListener("click", () => copyText(byId("copy-snippet"), () => chosen().text));
  byId("save-snippet").addEventListener("click", () => save(new Blob([chosen().text]), chosen().file));
  for (const type of ["png", "jpeg"]) {
    byId(`save-${type}`).addEventListener("click", () => savePicture(page, type));
  }
  byId("save-geotiff").addEventListener("click", () => {
    const url = geotiffUrl(page.layer, page.choice, page.view);
    if (url) element("a", { href: url, download: `${page.layer.id}.tif` }).click();
    else say(t("no-geotiff"));
  });
}

function savePicture({ layer, view }, type) {
  let picture = view.picture();
  if (type === "jpeg") {
    const ground = element("canvas", { width: picture.width, height: picture.height });
    const context = ground.getContext("2d");
    context.fillStyle = "#fff";
    context.fillRect(0, 0, ground.width, ground.height);
    context.drawImage(picture, 0, 0);
    picture = ground;
  }
  try {
    picture.toBlob((blob) => save(blob, `${layer.id}.${type}`), `image/${type}`, 0.92);
  } catch {
    // The browser does not give out images of other hosts without their permission.
    say(t("no-picture"));
  }
}

/** Save a file under a name. */
export function save(blob, name) {
  const url = URL.createObjectURL(blob);
  element("a", { href: url, download: name }).click();
  URL.revokeObjectURL(url);
}
