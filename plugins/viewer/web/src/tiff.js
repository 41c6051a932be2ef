// Images and elevations in TIFF.

import { fromArrayBuffer } from "geotiff";

/** Return {width, height, channels, samples} of a TIFF file, with interleaved samples. */
export async function decodeTiff(buffer) {
  const image = await (await fromArrayBuffer(buffer)).getImage();
  const samples = await image.readRasters({ interleave: true });
  return {
    width: image.getWidth(),
    height: image.getHeight(),
    channels: image.getSamplesPerPixel(),
    samples,
  };
}

/** Draw an image with 8-bit samples (grey or RGB, with or without alpha) on a canvas; return it. */
export async function paintTiff(canvas, buffer) {
  const { width, height, channels, samples } = await decodeTiff(buffer);
  [canvas.width, canvas.height] = [width, height];
  const image = new ImageData(width, height);
  const pixels = image.data;
  const isGrey = channels < 3;
  const hasAlpha = channels === 2 || channels === 4;
  for (let from = 0, to = 0; to < pixels.length; from += channels, to += 4) {
    pixels[to] = samples[from];
    pixels[to + 1] = samples[isGrey ? from : from + 1];
    pixels[to + 2] = samples[isGrey ? from : from + 2];
    pixels[to + 3] = hasAlpha ? samples[from + channels - 1] : 255;
  }
  canvas.getContext("2d").putImageData(image, 0, 0);
  return canvas;
}
