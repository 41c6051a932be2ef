// Leaflet on the grid of any tile matrix set: coordinates of the map are those of the set's CRS,
// x as "lng" and y as "lat", and zoom z is the z-th matrix, the coarsest being 0.

/* global L */

/** Return the cell size at a zoom, which may lie between two matrices or outside of them. */
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

/** Return the zoom that has a cell size: the inverse of cellSizeAt. */
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

/** Return the Leaflet CRS of a tile matrix set. */
export function gridCrs(set) {
  const { originX, originY } = set.matrices[set.matrices.length - 1];
  return L.Util.extend({}, L.CRS.Simple, {
    code: set.crs,
    transformation: new L.Transformation(1, -originX, -1, originY),
    scale: (zoom) => 1 / cellSizeAt(set, zoom),
    zoom: (scale) => zoomOf(set, 1 / scale),
  });
}

/**
 * A layer of tiles in the grid of its set. Subclasses give `draw(coords, tile)`, which fills a
 * tile element and returns a promise of whether there was anything to show.
 */
export const GridTiles = L.GridLayer.extend({
  initialize(layer, set, options) {
    this.description = layer;
    this.set = set;
    const zooms = set.matrices.flatMap((matrix, zoom) => (matrix.id in layer.levels ? [zoom] : []));
    L.setOptions(this, {
      ...options,
      minNativeZoom: zooms[0],
      maxNativeZoom: zooms[zooms.length - 1],
      minZoom: -20,
      maxZoom: 40,
      updateWhenZooming: false,
      keepBuffer: 1,
    });
  },

  createTile(coords, done) {
    const tile = this.makeElement();
    const abort = new AbortController();
    tile.abort = abort;
    const matrix = this.set.matrices[coords.z];
    tile.width = matrix.tileWidth;
    tile.height = matrix.tileHeight;
    this.draw(coords, tile, abort.signal).then(
      () => done(null, tile),
      (error) => {
        if (!abort.signal.aborted) done(error, tile);
      },
    );
    return tile;
  },

  makeElement() {
    return document.createElement("canvas");
  },

  /** Return the address of a tile. */
  tileUrl(coords) {
    const { template, fromBottom } = this.description.tiles;
    const matrix = this.set.matrices[coords.z];
    const row = fromBottom ? matrix.matrixHeight - 1 - coords.y : coords.y;
    return template
      .replace("{z}", () => encodeURIComponent(matrix.id))
      .replace("{x}", coords.x)
      .replace("{y}", row);
  },

  /** Fetch a tile; null when none is stored there. */
  async fetchTile(coords, signal) {
    const response = await fetch(this.tileUrl(coords), { signal });
    if (response.status === 204 || response.status === 404) return null;
    if (!response.ok) throw new Error(`${response.status} ${response.statusText}`);
    return response.arrayBuffer();
  },

  /** Return the loaded tile at a place and the position in it, in pixels; or null. */
  tileAt(latlng) {
    const zoom = this._tileZoom;
    if (zoom === undefined || !this._map) return null;
    const matrix = this.set.matrices[zoom];
    const pixel = this._map.project(latlng, zoom).subtract(this.gridOffset(zoom));
    const x = Math.floor(pixel.x / matrix.tileWidth);
    const y = Math.floor(pixel.y / matrix.tileHeight);
    const found = this._tiles[`${x}:${y}:${zoom}`];
    if (!found) return null;
    return {
      tile: found.el,
      x: pixel.x - x * matrix.tileWidth,
      y: pixel.y - y * matrix.tileHeight,
    };
  },

  /** The matrices of a set need not have a common origin: offset of one, in its pixels. */
  gridOffset(zoom) {
    const { matrices } = this.set;
    const base = matrices[matrices.length - 1];
    const matrix = matrices[zoom];
    return L.point(
      (matrix.originX - base.originX) / matrix.cellSize,
      (base.originY - matrix.originY) / matrix.cellSize,
    );
  },

  getTileSize() {
    const matrix = this.set.matrices[this._tileZoom ?? 0];
    return L.point(matrix.tileWidth, matrix.tileHeight);
  },

  onAdd(map) {
    this.on("tileunload", (event) => event.tile.abort.abort());
    return L.GridLayer.prototype.onAdd.call(this, map);
  },

  _pxBoundsToTileRange(bounds) {
    const offset = this.gridOffset(this._tileZoom);
    const shifted = L.bounds(bounds.min.subtract(offset), bounds.max.subtract(offset));
    return L.GridLayer.prototype._pxBoundsToTileRange.call(this, shifted);
  },

  _getTilePos(coords) {
    return L.GridLayer.prototype._getTilePos.call(this, coords).add(this.gridOffset(coords.z));
  },

  _isValidTile(coords) {
    const limits = this.description.levels[this.set.matrices[coords.z]?.id];
    if (!limits) return false;
    const [minRow, maxRow, minCol, maxCol] = limits;
    return coords.y >= minRow && coords.y <= maxRow && coords.x >= minCol && coords.x <= maxCol;
  },
});
