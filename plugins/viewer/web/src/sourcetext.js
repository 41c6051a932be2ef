// What people read about the source of a pixel: a row of the table of sources.

import { timeLabel } from "./dates.js";
import { t, threeDigits } from "./texts.js";

/** Return a length as surveys state it: 20 cm, 0.5 cm, 2 m. */
function lengthText(metres) {
  return metres < 1 ? `${threeDigits(100 * metres)} cm` : `${threeDigits(metres)} m`;
}

function dateText({ date, start, end }) {
  // An open range is a date.
  if (start && end) return t("flown-between", { start: timeLabel(start), end: timeLabel(end) });
  const text = date ?? start ?? end;
  if (!text) return "";
  return t(text.length < 10 ? "flown-in" : "flown-on", { date: timeLabel(text) });
}

/** Return what is known: "Flown on April 12, 2023, 20 cm, licence etalab-2.0"; may be empty. */
export function sourceText(row) {
  const { gsd, accuracy, licence } = row;
  const parts = [
    dateText(row),
    gsd > 0 && lengthText(gsd),
    typeof accuracy === "number" ? `±${lengthText(accuracy)}` : accuracy,
    licence && t("licence", { licence }),
  ];
  return parts.filter(Boolean).join(", ");
}

/** Return the name of a source, with that of its campaign. */
export function sourceName({ id, title, group }) {
  const name = title ?? id;
  return group && group !== name ? `${name} (${group})` : name;
}
