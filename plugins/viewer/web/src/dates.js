// Dates for reading.

const FORMS = { 7: { year: "numeric", month: "long" }, 10: { dateStyle: "long" } };

/** Return a time for reading, in its precision: 1950, June 1950, June 17, 1950. */
export function timeLabel(text) {
  const form = /^\d{4}(-\d\d){1,2}$/.test(text) && FORMS[text.length];
  const { lang } = document.documentElement;
  if (form) return new Date(text).toLocaleDateString(lang, { ...form, timeZone: "UTC" });
  return text.replace("T", " ").replace(/Z$/, " UTC");
}
