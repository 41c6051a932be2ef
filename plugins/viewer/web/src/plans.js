// Plans: which tiles a choice of source, tile matrix set and style consists of, and their URLs.

import { intersection, mapUrl, tileBox, tileUrl } from "./addresses.js";
import { levelsOf, nearestMatrix } from "./levels.js";
import { StoredTiles } from "./storedtiles.js";

/** Maps are requested up to this many levels above the coarsest one; each then reads 16 tiles. */
const BEYOND = 2;

/**
 * Return the plan of a choice: its matrices, the functions url, isValid and isStored of (matrix,
 * row, column), where isStored returns a promise or is null if this is unknown, and mayMiss,
 * whether a valid tile may be missing.
 *
 * @param options "format" and "transparent" of maps
 */
export function planOf(layer, choice, options) {
  return choice.source.type === "maps" ? mapPlan(choice, options) : tilePlan(layer, choice);
}

export function isWithin([minRow, maxRow, minCol, maxCol], row, col) {
  return row >= minRow && row <= maxRow && col >= minCol && col <= maxCol;
}

/** Return whether a tile exists, as far as this is known without a request for it. */
export async function exists(plan, ...place) {
  return plan.isValid(...place) && (!plan.isStored || plan.isStored(...place));
}

function tilePlan(layer, choice) {
  const { source, set } = choice;
  const stored = set.blocks && source.missing !== 204 ? new StoredTiles(layer) : null;
  return {
    matrices: levelsOf(set),
    // It is not known in advance which tiles drawn on demand are missing.
    mayMiss: !stored,
    url: (matrix, row, col) => tileUrl(choice, matrix, row, col),
    isValid(matrix, row, col) {
      return isWithin(set.limits[matrix.id], row, col);
    },
    isStored: stored ? (matrix, row, col) => stored.has(matrix.id, row, col) : null,
  };
}

function mapPlan(choice, options) {
  const { set } = choice;
  const levels = levelsOf(set);
  const first = Math.max(0, set.matrices.indexOf(levels[0]) - BEYOND);
  return {
    matrices: set.matrices.slice(first),
    mayMiss: false,
    url(matrix, row, col) {
      return mapUrl(choice, tileBox(matrix, row, col), matrix.tileWidth, matrix.tileHeight, options);
    },
    isValid(matrix, row, col) {
      if (row < 0 || row >= matrix.matrixHeight || col < 0 || col >= matrix.matrixWidth) return false;
      // Coarse levels may have a larger extent than fine ones.
      const box = extentOf(set, nearestMatrix(levels, matrix.cellSize));
      return meets(box, tileBox(matrix, row, col), matrix.cellSize);
    },
    isStored: null,
  };
}

function extentOf(set, matrix) {
  const [minRow, maxRow, minCol, maxCol] = set.limits[matrix.id];
  const [west, , , north] = tileBox(matrix, minRow, minCol);
  const [, south, east] = tileBox(matrix, maxRow, maxCol);
  return [west, south, east, north];
}

/** Return whether boxes overlap by more than rounding errors at a common edge. */
function meets(one, other, cellSize) {
  const common = intersection(one, other);
  return common !== null && Math.min(common[2] - common[0], common[3] - common[1]) > cellSize / 100;
}
