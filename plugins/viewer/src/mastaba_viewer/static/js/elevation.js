// The numbers in tiles of float32 elevations: bare, or in TIFF.

import { decodeTiff } from "./tiff.js";

/** Return the numbers of a tile, NaN where there is none. */
export async function decodeElevations(buffer, { mediaType, nodata }) {
  const values =
    mediaType === "image/tiff" ? (await decodeTiff(buffer)).samples : new Float32Array(buffer);
  for (let at = 0; at < values.length; at += 1) {
    if (isNodata(values[at], nodata)) values[at] = NaN;
  }
  return values;
}

/** Tell whether a number stands for "no data". */
export function isNodata(value, [nodata]) {
  // Compared as stored: the number of the configuration may have more digits.
  return value === Math.fround(nodata) || Math.abs(value) > 1e30;
}
