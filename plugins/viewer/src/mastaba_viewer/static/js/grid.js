// Zooms of a tile matrix set: zoom z is the z-th matrix, starting with the coarsest at 0.

/** Return the zooms at which a layer has levels in a set, the coarsest first. */
export function levelsOf(set) {
  return set.matrices.flatMap((matrix, zoom) => (Object.hasOwn(set.limits, matrix.id) ? [zoom] : []));
}

/** Return the cell size at a zoom, which may be between two matrices or outside their range. */
export function cellSizeAt(set, zoom) {
  const { matrices } = set;
  const last = matrices.length - 1;
  if (zoom <= 0) return matrices[0].cellSize * 2 ** -zoom;
  if (zoom >= last) return matrices[last].cellSize / 2 ** (zoom - last);
  const below = Math.floor(zoom);
  const coarse = matrices[below].cellSize;
  const fine = matrices[below + 1].cellSize;
  return coarse * (fine / coarse) ** (zoom - below);
}

/** Return the zoom for a cell size (the inverse of cellSizeAt). */
export function zoomOf(set, cellSize) {
  const { matrices } = set;
  const last = matrices.length - 1;
  if (cellSize >= matrices[0].cellSize) return -Math.log2(cellSize / matrices[0].cellSize);
  if (cellSize <= matrices[last].cellSize) {
    return last + Math.log2(matrices[last].cellSize / cellSize);
  }
  let below = 0;
  while (matrices[below + 1].cellSize > cellSize) below += 1;
  const coarse = matrices[below].cellSize;
  const fine = matrices[below + 1].cellSize;
  return below + Math.log(cellSize / coarse) / Math.log(fine / coarse);
}
