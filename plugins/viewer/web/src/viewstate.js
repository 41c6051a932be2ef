// The URL fragment describes what a page shows: at=x,y,cell size, and the choices of the user.

const DIGITS = 12;

/** Return the state in the fragment: {view, values}; the view is {x, y, cellSize} or null. */
export function readState() {
  const values = Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
  const [x, y, cellSize] = (values.at ?? "").split(",").map(Number);
  const isView = [x, y, cellSize].every(Number.isFinite) && cellSize > 0 && values.at !== "";
  return { view: isView ? { x, y, cellSize } : null, values };
}

/** Return the fragment of a state; values that are undefined are left out. */
export function fragment({ x, y, cellSize }, values = {}) {
  const place = [x, y].map((value) => rounded(value, cellSize));
  const parts = [`at=${[...place, Number(cellSize.toPrecision(DIGITS))].join(",")}`];
  for (const [name, value] of Object.entries(values)) {
    if (value !== undefined) parts.push(`${name}=${encodeURIComponent(value)}`);
  }
  return `#${parts.join("&")}`;
}

/** Write the fragment of a state. */
export function writeState(view, values) {
  history.replaceState(null, "", fragment(view, values));
}

/** Round a coordinate to about a tenth of a pixel. */
function rounded(value, cellSize) {
  const digits = Math.min(DIGITS, Math.max(0, 1 - Math.floor(Math.log10(cellSize))));
  return Number(value.toFixed(digits));
}
