// The URL fragment describes what a page shows: at=x,y,cell size, the choices of the user, and the
// settings that differ from those in the page: the controls with the attribute data-setting.

const DIGITS = 12;
const settings = [...document.querySelectorAll("[data-setting]")];
const usual = new Map(settings.map((control) => [control, valueOf(control)]));

function valueOf(control) {
  return control.type === "checkbox" ? String(control.checked) : control.value;
}

function setValue(control, value) {
  if (control.type === "checkbox") control.checked = value === "true";
  else control.value = value;
  // The value is no option.
  if (control.selectedIndex === -1) control.value = usual.get(control);
}

/** Return the state in the fragment: {view, values}; the view is {x, y, cellSize} or null. */
export function readState() {
  const values = Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
  const [x, y, cellSize] = (values.at ?? "").split(",").map(Number);
  const isView = [x, y, cellSize].every(Number.isFinite) && cellSize > 0;
  for (const control of settings) setValue(control, values[control.id] ?? usual.get(control));
  return { view: isView ? { x, y, cellSize } : null, values };
}

/** Return the fragment of a state; values that are undefined are left out. */
export function fragment({ x, y, cellSize }, values = {}) {
  const place = [x, y].map((value) => rounded(value, cellSize));
  const at = [...place, Number(cellSize.toPrecision(DIGITS))].join(",");
  const parts = Object.entries(values).filter(([, value]) => value !== undefined);
  return `#${[`at=${at}`, ...parts.map(([name, value]) => `${name}=${encodeURIComponent(value)}`)].join("&")}`;
}

/** Write the fragment of a state, with the settings that are shown. */
export function writeState(view, values) {
  const shown = settings.filter((control) => !control.closest("[hidden]"));
  const changed = shown.filter((control) => valueOf(control) !== usual.get(control));
  const set = Object.fromEntries(changed.map((control) => [control.id, valueOf(control)]));
  history.replaceState(null, "", fragment(view, { ...values, ...set }));
}

/** Round a coordinate to about a tenth of a pixel. */
function rounded(value, cellSize) {
  const digits = Math.min(DIGITS, Math.max(0, 1 - Math.floor(Math.log10(cellSize))));
  return Number(value.toFixed(digits));
}
