// Print the samples of an image in a GeoTIFF, as geotiff.js reads them.
// node read_geotiff.mjs GEOTIFF_MODULE FILE OVERVIEW
import { pathToFileURL } from "node:url";

const [, , library, path, overview] = process.argv;
const { fromFile } = await import(pathToFileURL(library));
const file = await fromFile(path);
const image = await file.getImage(Number(overview));
// JPEG: readRasters would give luma and chroma.
const isJpeg = image.fileDirectory.PhotometricInterpretation === 6;
const samples = isJpeg
    ? await image.readRGB({ interleave: true })
    : await image.readRasters({ interleave: true });
const { width, height, buffer, byteOffset, byteLength } = samples;
const facts = {
    count: await file.getImageCount(),
    width,
    height,
    origin: overview === "0" ? image.getOrigin() : null,
    isPoint: overview === "0" ? image.pixelIsArea() === false : null,
    nodata: image.getGDALNoData(),
};
process.stdout.write(`${JSON.stringify(facts)}\n`);
process.stdout.write(Buffer.from(buffer, byteOffset, byteLength));
await file.close();
