// Leaflet layers for choices.

import { intersection, mapUrl, tileBox, tileUrl } from "./addresses.js";
import { ElevationTiles } from "./elevationtiles.js";
import { levelsOf } from "./grid.js";
import { ImageTiles } from "./imagetiles.js";
import { boxIn, zoomsIn } from "./places.js";
import { StoredTiles } from "./storedtiles.js";
import { TiffTiles } from "./tifftiles.js";
import { VectorTiles } from "./vectortiles.js";

const KINDS = { image: ImageTiles, tiff: TiffTiles, elevation: ElevationTiles, vector: VectorTiles };
/** Maps are requested up to this many levels above the coarsest one; each then reads 16 tiles. */
const BEYOND = 2;

/**
 * Return the Leaflet layer of a choice.
 *
 * @param options "format" and "transparent" for maps, and Leaflet options
 */
export function draw(layer, choice, options) {
  const plan = choice.source.type === "maps" ? maps(layer, choice, options) : tiles(layer, choice);
  const { format, transparent, ...others } = options;
  return new KINDS[choice.look.draws](layer, plan, others);
}

function tiles(layer, choice) {
  const { source, set } = choice;
  const zooms = levelsOf(set);
  const stored = set.blocks && source.missing !== 204 ? new StoredTiles(layer) : null;
  return {
    set,
    minZoom: zooms[0],
    maxZoom: zooms[zooms.length - 1],
    // It is not known in advance which tiles drawn on demand are missing.
    mayMiss: !stored,
    url: (matrix, row, col) => tileUrl(choice, matrix, row, col),
    isValid(matrix, row, col) {
      const limits = set.limits[matrix.id];
      if (!limits) return false;
      const [minRow, maxRow, minCol, maxCol] = limits;
      return row >= minRow && row <= maxRow && col >= minCol && col <= maxCol;
    },
    isStored: stored ? (matrix, row, col) => stored.has(matrix.id, row, col) : null,
  };
}

function maps(layer, choice, options) {
  const { set } = choice;
  const extent = set.limits ? extentAt(set) : () => boxIn(layer, set);
  return {
    set,
    minZoom: Math.max(0, Math.min(zoomsIn(layer, set)[0], set.matrices.length - 1) - BEYOND),
    maxZoom: set.matrices.length - 1,
    mayMiss: false,
    url(matrix, row, col) {
      return mapUrl(choice, tileBox(matrix, row, col), matrix.tileWidth, matrix.tileHeight, options);
    },
    isValid(matrix, row, col) {
      if (row < 0 || row >= matrix.matrixHeight || col < 0 || col >= matrix.matrixWidth) return false;
      const box = extent(matrix.cellSize);
      return !box || meets(box, tileBox(matrix, row, col), matrix.cellSize);
    },
    isStored: null,
  };
}

/** Return whether boxes overlap by more than rounding errors at a common edge. */
function meets(one, other, cellSize) {
  const common = intersection(one, other);
  return common !== null && Math.min(common[2] - common[0], common[3] - common[1]) > cellSize / 100;
}

/** Return a function that maps a cell size to the extent of the level used to draw it. */
function extentAt(set) {
  const extents = levelsOf(set).map((zoom) => {
    const matrix = set.matrices[zoom];
    const [minRow, maxRow, minCol, maxCol] = set.limits[matrix.id];
    const [west, , , north] = tileBox(matrix, minRow, minCol);
    const [, south, east] = tileBox(matrix, maxRow, maxCol);
    return { cellSize: matrix.cellSize, box: [west, south, east, north] };
  });
  // Coarse levels may have a larger extent than fine ones.
  return (cellSize) =>
    extents.reduce((one, other) => (distance(other, cellSize) < distance(one, cellSize) ? other : one)).box;
}

function distance(level, cellSize) {
  return Math.abs(Math.log(level.cellSize / cellSize));
}
