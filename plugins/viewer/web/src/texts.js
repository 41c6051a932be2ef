// Texts of the pages, in the language that the server has chosen for the page.

import en from "../../src/mastaba_viewer/texts/en.json";
import fr from "../../src/mastaba_viewer/texts/fr.json";

const { lang } = document.documentElement;
const texts = { ...en, ...(lang === "fr" ? fr : {}) };

/** Return a text, with its placeholders ({name}) replaced. */
export function t(key, values = {}) {
  return texts[key].replace(/\{(\w+)\}/g, (place, name) => values[name] ?? place);
}

/** Format a number for reading. */
export function number(value, digits = 0) {
  return value.toLocaleString(lang, { minimumFractionDigits: digits, maximumFractionDigits: digits });
}
