// Copying of texts.

import { element } from "./dom.js";
import { t } from "./texts.js";

const SHOWN = 1500;

/** Copy a text, and say so on the button for a moment. */
export async function copyText(button, text) {
  await write(text());
  button.textContent = t("copied");
  setTimeout(() => {
    button.textContent = t("copy");
  }, SHOWN);
}

async function write(text) {
  // The clipboard API exists only on secure origins.
  if (navigator.clipboard) {
    try {
      await navigator.clipboard.writeText(text);
      return;
    } catch {
      // Not permitted: try the old method.
    }
  }
  const before = document.activeElement;
  const field = element("textarea", { value: text, className: "hidden" });
  document.body.append(field);
  field.select();
  document.execCommand("copy");
  field.remove();
  before?.focus();
}
