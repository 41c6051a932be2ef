// Values of float32 elevation tiles, either raw or in TIFF.

/** Return the values of a tile, with NaN for nodata. */
export async function decodeElevations(buffer, { mediaType, nodata }) {
  const values =
    mediaType === "image/tiff"
      ? (await (await import("./tiff.js")).decodeTiff(buffer)).samples
      : new Float32Array(buffer);
  for (let at = 0; at < values.length; at += 1) {
    if (isNodata(values[at], nodata)) values[at] = NaN;
  }
  return values;
}

/** Return whether a value means nodata. */
export function isNodata(value, [nodata]) {
  // Rounded to float32 like the stored value: the configured number may have more digits.
  return value === Math.fround(nodata) || Math.abs(value) > 1e30;
}
