// Texts of the pages, in the language that the server has chosen for the page.

import en from "../../src/mastaba_viewer/texts/en.json";
import fr from "../../src/mastaba_viewer/texts/fr.json";

const { lang } = document.documentElement;
const texts = { ...en, ...(lang === "fr" ? fr : {}) };
const PLAIN = { useGrouping: false, signDisplay: "negative" };
const decimals = (digits) => ({ minimumFractionDigits: digits, maximumFractionDigits: digits });

/** Return a text, with its placeholders ({name}) replaced. */
export function t(key, values = {}) {
  return texts[key].replace(/\{(\w+)\}/g, (place, name) => values[name] ?? place);
}

/** Format a number for reading: no sign if it rounds to zero. */
export function number(value, digits = 0) {
  return value.toLocaleString(lang, { signDisplay: "negative", ...decimals(digits) });
}

/** Format a number that may be copied elsewhere: with a point, and no sign if it rounds to zero. */
export function fixed(value, digits) {
  return value.toLocaleString("en", { ...PLAIN, ...decimals(digits) });
}

/** Format a number for reading, with at least three significant digits. */
export function threeDigits(value) {
  const digits = { maximumSignificantDigits: 3, maximumFractionDigits: 0, roundingPriority: "morePrecision" };
  return value.toLocaleString(lang, { ...PLAIN, ...digits });
}
