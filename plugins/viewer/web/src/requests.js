// Request URLs for the current view, from all services that publish the layer.

import { fill, mapUrl, tileUrl } from "./addresses.js";
import { isOffered } from "./choice.js";
import { tileNear } from "./levels.js";
import { cellIn, moved } from "./projections.js";
import { t } from "./texts.js";
import { visibleExtent } from "./visible.js";

/**
 * Return the groups of requests: [{title, note, items: [{label, url, example}]}]. The example of a
 * template is the tile in the middle of the view; for other URLs, it is the URL itself.
 *
 * @param options "format" and "transparent" for maps
 */
export function requestGroups(layer, choice, view, options) {
  const groups = [];
  for (const source of layer.sources) {
    const set = isOffered(source, choice.set) ? choice.set : layer.sets.find((one) => isOffered(source, one));
    const look =
      source.styles.find(({ style }) => style === choice.look.style) ?? source.styles[0] ?? null;
    const here = { source, set, look };
    const items = look && set ? make(layer, here, view, options) : [];
    for (const { label, url } of source.documents) {
      const names = set && source.sets ? { TileMatrixSet: encodeURIComponent(source.sets[set.id]) } : {};
      const whole = fill(url, names);
      items.push({ label, url: whole, example: whole });
    }
    groups.push({ title: source.title, note: note(layer, choice, here), items });
  }
  return groups;
}

function make(layer, here, view, options) {
  return here.source.type === "maps" ? mapRequests(here, view, options) : tileRequests(layer, here, view);
}

function mapRequests(here, view, options) {
  const { box, width, height } = visibleExtent(view, here);
  const format = here.look.formats.includes(options.format) ? options.format : here.look.formats[0];
  const url = mapUrl(here, box, width, height, { ...options, format });
  const label = here.source.id === "wms" ? t("getmap-of-view") : t("map-of-view");
  const items = [{ label, url, example: url }];
  if (here.look.legend) items.push({ label: t("legend"), url: here.look.legend, example: here.look.legend });
  return items;
}

function tileRequests(layer, here, view) {
  const { source, set, look } = here;
  const { matrix, row, col } = tileNear(
    set,
    moved([view.view.x, view.view.y], view.crs, set.crs),
    cellIn(view.cellSize, view.crs, set.crs),
  );
  const example = tileUrl(here, matrix, row, col);
  const named = fill(look.template, { TileMatrixSet: encodeURIComponent(source.sets[set.id]) });
  const items = [];
  if (hasZooms(set)) items.push({ label: t("xyz-template"), url: xyz(named, source), example });
  if (source.id !== "tms") {
    items.push({ label: source.id === "wmts" ? t("kvp-template") : t("tile-template"), url: named, example });
  } else if (!hasZooms(set)) {
    items.push({ label: t("tile-template"), url: named, example });
  }
  if (look.rest) {
    items.push({
      label: t("rest-template"),
      url: fill(look.rest, { TileMatrixSet: encodeURIComponent(source.sets[set.id]) }),
      example: tileUrl(here, matrix, row, col, look.rest),
    });
  }
  // One {z}/{x}/{y} template is enough.
  const isFirst = layer.sources.find(({ type }) => type === "tiles") === source;
  return isFirst ? items : items.filter(({ label }) => label !== t("xyz-template"));
}

/** Return whether tile matrix identifiers are zoom numbers, which clients put in their place. */
export function hasZooms(set) {
  return set.matrices.every((matrix, zoom) => matrix.id === String(zoom));
}

function xyz(template, { fromBottom }) {
  return fill(template, { TileMatrix: "{z}", TileCol: "{x}", TileRow: fromBottom ? "{-y}" : "{y}" });
}

/** Return a note if the URLs of a service differ from what is shown. */
function note(layer, choice, { source, set, look }) {
  if (!look || !set) return "";
  const notes = [];
  if (look.style !== choice.look.style && layer.styles.length > 1) {
    notes.push(look.style === null ? t("stored-data") : t("style-id", { id: look.style }));
  }
  if (set !== choice.set) notes.push(source.type === "maps" ? set.crs : set.id);
  return notes.join(", ");
}
