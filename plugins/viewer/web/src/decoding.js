// Decoding of tiles that browsers do not know: images and elevations in TIFF, raw elevations.

import { canvasOf } from "./dom.js";

/** Return {width, height, channels, samples} of a TIFF file, with interleaved samples. */
async function decodeTiff(buffer) {
  const { fromArrayBuffer } = await import("geotiff");
  const image = await (await fromArrayBuffer(buffer)).getImage();
  const samples = await image.readRasters({ interleave: true });
  return { width: image.getWidth(), height: image.getHeight(), channels: image.getSamplesPerPixel(), samples };
}

/** Return a canvas with an image of 8-bit samples: grey or RGB, with or without alpha. */
export async function paintTiff(buffer) {
  const { width, height, channels, samples } = await decodeTiff(buffer);
  const image = new ImageData(width, height);
  const [green, blue] = channels < 3 ? [0, 0] : [1, 2];
  const hasAlpha = channels === 2 || channels === 4;
  for (let from = 0, to = 0; to < image.data.length; from += channels, to += 4) {
    image.data[to] = samples[from];
    image.data[to + 1] = samples[from + green];
    image.data[to + 2] = samples[from + blue];
    image.data[to + 3] = hasAlpha ? samples[from + channels - 1] : 255;
  }
  const canvas = canvasOf(width, height);
  canvas.getContext("2d").putImageData(image, 0, 0);
  return canvas;
}

/** Return the values of a tile of float32 elevations, with NaN for nodata. */
export async function decodeElevations(buffer, { mediaType, nodata }) {
  const isTiff = mediaType === "image/tiff";
  const values = isTiff ? (await decodeTiff(buffer)).samples : new Float32Array(buffer);
  return values.map((value) => (isNodata(value, nodata) ? NaN : value));
}

/** Return whether a value means nodata. */
export function isNodata(value, [nodata]) {
  // Rounded to float32 like the stored value: the configured number may have more digits.
  return value === Math.fround(nodata) || Math.abs(value) > 1e30;
}
