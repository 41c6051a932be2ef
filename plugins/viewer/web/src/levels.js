// Levels: the matrices of a tile matrix set in which a layer has tiles.

import TileGrid from "ol/tilegrid/TileGrid.js";

/** Return the matrices in which a layer has levels, the coarsest first. */
export function levelsOf(set) {
  return set.matrices.filter(({ id }) => Object.hasOwn(set.limits, id));
}

/** Return the matrix whose cells are closest in size. */
export function nearestMatrix(matrices, cellSize) {
  const distance = (matrix) => Math.abs(Math.log(matrix.cellSize / cellSize));
  return matrices.reduce((one, other) => (distance(other) < distance(one) ? other : one));
}

/** Return the grid of some matrices, whose z is the place of a matrix in the list. */
export function gridOf(matrices) {
  return new TileGrid({
    resolutions: matrices.map(({ cellSize }) => cellSize),
    origins: matrices.map(({ originX, originY }) => [originX, originY]),
    tileSizes: matrices.map(({ tileWidth, tileHeight }) => [tileWidth, tileHeight]),
  });
}

/** Return {matrix, row, col} of the tile of a layer nearest to a place in the CRS of a set. */
export function tileNear(set, [x, y], cellSize) {
  const matrix = nearestMatrix(levelsOf(set), cellSize);
  const [minRow, maxRow, minCol, maxCol] = set.limits[matrix.id];
  const row = Math.floor((matrix.originY - y) / (matrix.cellSize * matrix.tileHeight));
  const col = Math.floor((x - matrix.originX) / (matrix.cellSize * matrix.tileWidth));
  return {
    matrix,
    row: Math.min(maxRow, Math.max(minRow, row)),
    col: Math.min(maxCol, Math.max(minCol, col)),
  };
}
