// The fragment of the address says what the page shows: at=x,y,cell size, and what was chosen.

const DIGITS = 12;

/** Read the fragment: {view, values}; the view is {x, y, cellSize}, or null. */
export function readState() {
  const values = Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
  const [x, y, cellSize] = (values.at ?? "").split(",").map(Number);
  const isView = [x, y, cellSize].every(Number.isFinite) && cellSize > 0 && values.at !== "";
  return { view: isView ? { x, y, cellSize } : null, values };
}

/** Write the fragment; values that are undefined are left out. */
export function writeState(map, cellSize, values = {}) {
  const { lat: y, lng: x } = map.getCenter();
  const place = [x, y].map((value) => rounded(value, cellSize));
  const parts = [`at=${[...place, Number(cellSize.toPrecision(DIGITS))].join(",")}`];
  for (const [name, value] of Object.entries(values)) {
    if (value !== undefined) parts.push(`${name}=${encodeURIComponent(value)}`);
  }
  history.replaceState(null, "", `#${parts.join("&")}`);
}

/** Return the fragment for another page with the same view. */
export function viewFragment() {
  const { at } = readState().values;
  return at ? `#at=${at}` : "";
}

/** A tenth of a pixel is close enough. */
function rounded(value, cellSize) {
  const digits = Math.min(DIGITS, Math.max(0, 1 - Math.floor(Math.log10(cellSize))));
  return Number(value.toFixed(digits));
}
