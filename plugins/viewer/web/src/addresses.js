// URLs of tiles and maps, built from the templates of sources.

/** Replace the placeholders of a template with values, which must already be encoded. */
export function fill(template, values) {
  return template.replace(/\{(\w+)\}/g, (place, name) => values[name] ?? place);
}

/** Return the URL of a tile. */
export function tileUrl({ source, set, look }, matrix, row, col, template = look.template) {
  return fill(template, {
    TileMatrixSet: encodeURIComponent(source.sets[set.id]),
    TileMatrix: encodeURIComponent(matrix.id),
    TileRow: source.fromBottom ? matrix.matrixHeight - 1 - row : row,
    TileCol: col,
  });
}

/** Return the box of a tile: west, south, east, north. */
export function tileBox(matrix, row, col) {
  const width = matrix.tileWidth * matrix.cellSize;
  const height = matrix.tileHeight * matrix.cellSize;
  const west = matrix.originX + col * width;
  const north = matrix.originY - row * height;
  return [west, north - height, west + width, north];
}

/** Return the intersection of two boxes, or null. */
export function intersection(one, other) {
  const box = [
    Math.max(one[0], other[0]),
    Math.max(one[1], other[1]),
    Math.min(one[2], other[2]),
    Math.min(one[3], other[3]),
  ];
  return box[0] < box[2] && box[1] < box[3] ? box : null;
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
export function mapUrl({ source, set, look }, box, width, height, { format, transparent }) {
  return fill(look.template, {
    ...extentValues(set, box, width, height),
    // OGC API uses short format names and lower-case booleans.
    FORMAT: source.id === "wms" ? format : format.replace(/^image\/(\w+).*/, "$1"),
    TRANSPARENT: source.id === "wms" ? String(transparent).toUpperCase() : transparent,
  });
}
