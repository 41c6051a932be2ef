// Plans: which tiles a choice of source, tile matrix set and style consists of, and their URLs.

import { fetchJson } from "./fetching.js";
import { coarserPlaces, extentOf, gridOf } from "./grid.js";
import { base } from "./site.js";

/** Maps are requested up to this many levels above the coarsest one; each then reads 16 tiles. */
const BEYOND = 2;

/** Return the levels: the matrices in which a layer has tiles, the coarsest first. */
export function levelsOf(set) {
  return set.matrices.filter(({ id }) => Object.hasOwn(set.limits, id));
}

/** Return the level whose cells are closest in size. */
export function nearestLevel(set, cellSize) {
  const distance = (level) => Math.abs(Math.log(level.cellSize / cellSize));
  return levelsOf(set).reduce((best, level) => (distance(level) < distance(best) ? level : best));
}

/**
 * Return the plan of a choice: its set, its matrices, their grid and its extent, and the functions
 *
 * - exists of (z, row, column), where z is a place in the list of matrices: a promise of whether a
 *   tile exists, as far as is known without a request for it;
 * - url of (z, row, column);
 * - load of a place [z, row, column], an AbortSignal and a function of (url, signal, place): a
 *   promise of what the function returns, or of null if the tile does not exist;
 * - coarser of a place: the places on the next coarser level that cover its tile.
 *
 * @param options "format" and "transparent" of maps
 */
export function planOf(layer, choice, options) {
  const { source, set } = choice;
  const isMap = source.type === "maps";
  const levels = levelsOf(set);
  const matrices = isMap ? set.matrices.slice(Math.max(0, set.matrices.indexOf(levels[0]) - BEYOND)) : levels;
  const extent = extentOf(levels, set.limits);
  const grid = gridOf(matrices, extent);
  const isStored = !isMap && set.blocks && source.missing !== 204 ? storedTiles(layer) : null;
  const exists = async (z, row, col) =>
    isWithin(matrices[z].tiles, row, col) && (!isStored || isStored(matrices[z].id, row, col));
  const url = (z, row, col) => {
    const matrix = matrices[z];
    if (!isMap) return tileUrl(choice, matrix, row, col);
    const box = grid.getTileCoordExtent([z, col, row]);
    return mapUrl(choice, box, matrix.tileWidth, matrix.tileHeight, options);
  };
  const load = async (place, signal, fetching) => {
    const isKnown = await exists(...place);
    const found = isKnown && !signal.aborted ? await fetching(url(...place), signal, place) : null;
    // It is not known in advance which tiles drawn on demand are missing.
    if (!found && isKnown && (isMap || isStored) && !signal.aborted) throw new Error("a tile is missing");
    return found;
  };
  const coarser = (place) => coarserPlaces(grid, place);
  return { set, matrices, grid, extent, exists, url, load, coarser };
}

export function isWithin([minRow, maxRow, minCol, maxCol], row, col) {
  return row >= minRow && row <= maxRow && col >= minCol && col <= maxCol;
}

// Browsers log each request for a missing tile as an error, so the viewer is asked before.
function storedTiles(layer) {
  const blocks = new Map();
  return async (matrix, row, col) => {
    const [height, width] = layer.sets[0].blocks[matrix];
    const place = [matrix, Math.floor(row / height), Math.floor(col / width)];
    const path = [layer.id, ...place].map(encodeURIComponent).join("/");
    // If this request fails, the tile is assumed to exist.
    const forget = () => void blocks.delete(path);
    if (!blocks.has(path)) blocks.set(path, fetchJson(`${base}/data/stored/${path}`).catch(forget));
    const block = await blocks.get(path);
    return !block || block.rows[row % height]?.[col % width] === "1";
  };
}

/** Replace the placeholders of a template with values, which must already be encoded. */
export function fill(template, values) {
  return template.replace(/\{(\w+)\}/g, (place, name) => values[name] ?? place);
}

/** Return the URL of a tile. */
function tileUrl({ source, set, look }, matrix, row, col) {
  return fill(look.template, {
    TileMatrixSet: encodeURIComponent(source.sets[set.id]),
    TileMatrix: encodeURIComponent(matrix.id),
    TileRow: source.fromBottom ? matrix.matrixHeight - 1 - row : row,
    TileCol: col,
  });
}

/** Return the values for the placeholders of an extent; the axis order is that of the CRS. */
export function extentValues(set, [west, south, east, north], width, height) {
  const edges = set.northingFirst ? [south, west, north, east] : [west, south, east, north];
  return {
    CRS: set.crs,
    BBOX: edges.map((edge) => Number(edge.toPrecision(15))).join(","),
    WIDTH: width,
    HEIGHT: height,
  };
}

/** Return the URL of a map. */
function mapUrl({ source, set, look }, box, width, height, { format, transparent }) {
  return fill(look.template, {
    ...extentValues(set, box, width, height),
    // OGC API uses short format names and lower-case booleans.
    FORMAT: source.id === "wms" ? format : format.replace(/^image\/(\w+).*/, "$1"),
    TRANSPARENT: source.id === "wms" ? String(transparent).toUpperCase() : transparent,
  });
}
