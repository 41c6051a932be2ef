// What leaves the page: texts for other programs, and files of what the map shows.

import clipboardCopy from "clipboard-copy";
import { byId, say } from "./dom.js";
import { withoutCredential } from "./site.js";
import { t } from "./texts.js";

const SHOWN = 1500;

/** Copy a text, and say so on the button for a moment. */
export async function copyText(button, text) {
  await clipboardCopy(text);
  button.textContent = t("copied");
  setTimeout(() => {
    button.textContent = t("copy");
  }, SHOWN);
}

/** Save a file under a name. */
export function save(content, name) {
  const url = URL.createObjectURL(new Blob([content], { type: content.type }));
  Object.assign(document.createElement("a"), { href: url, download: name }).click();
  URL.revokeObjectURL(url);
}

/**
 * Bind the buttons.
 *
 * @param page with the current layer, choice and view
 */
export function bindTaking(page) {
  const chosen = () => page.layer.snippets.find(({ id }) => id === byId("program").value);
  const show = () => {
    byId("snippet").textContent = withoutCredential(chosen()?.text);
  };
  show();
  byId("program").addEventListener("change", show);
  byId("copy-snippet").addEventListener("click", ({ target }) => copyText(target, chosen().text));
  byId("save-snippet").addEventListener("click", () => save(chosen().text, chosen().file));
  byId("save-png").addEventListener("click", () => savePicture(page, "png"));
  byId("save-jpeg").addEventListener("click", () => savePicture(page, "jpeg", "#fff"));
}

function savePicture({ layer, view }, type, ground) {
  try {
    view.picture(ground).toBlob((blob) => save(blob, `${layer.id}.${type}`), `image/${type}`, 0.92);
  } catch {
    // The browser does not give out images of other hosts without their permission.
    say(t("no-picture"));
  }
}
