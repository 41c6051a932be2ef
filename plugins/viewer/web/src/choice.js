// The choice of source, tile matrix set and style of a layer, which depend on each other.

import { t } from "./texts.js";

/** Return the styles of a source that browsers can show. */
function looks(source) {
  return source.styles.filter((look) => look.draws);
}

/** Return the sets of a layer that a source offers. */
export function setsOf(layer, source) {
  return layer.sets.filter((set) => isOffered(source, set));
}

/** Return whether a source offers tiles in a set, or maps in its CRS. */
export function isOffered(source, set) {
  return source.type === "maps" ? source.crs.includes(set.crs) : Object.hasOwn(source.sets, set.id);
}

/** Return the sources that can be shown. */
export function sourcesOf(layer) {
  return layer.sources.filter((source) => looks(source).length && setsOf(layer, source).length);
}

const WEIGHTS = { source: 1, style: 2, set: 4 };

/**
 * Return the choice closest to the wanted one, as {source, set, look}, or null if there is none.
 * The part that the user changed last has the highest priority; the others adapt to it.
 *
 * @param wanted identifiers of source, set and style; style is null for stored data; omitted parts
 *   do not matter
 * @param changed the part that was changed: "source", "set" or "style"
 * @param sets sets to choose from; by default all sets of the layer
 */
export function nearest(layer, wanted, changed = null, sets = layer.sets) {
  const weights = { ...WEIGHTS, [changed]: 8 };
  let best = null;
  let most = -1;
  for (const source of layer.sources) {
    for (const set of sets) {
      if (!isOffered(source, set)) continue;
      for (const look of looks(source)) {
        const found =
          (source.id === wanted.source ? weights.source : 0) +
          (set.id === wanted.set ? weights.set : 0) +
          (look.style === wanted.style ? weights.style : 0);
        if (found > most) {
          most = found;
          best = { source, set, look };
        }
      }
    }
  }
  return best;
}

/** Return the identifiers of a choice. */
export function namesOf({ source, set, look }) {
  return { source: source.id, set: set.id, style: look.style };
}

/** Return [value, text] of every style that a source can show; the value is "" for stored data. */
export function styleOptions(layer, sources = layer.sources) {
  const shown = new Set(sources.flatMap((source) => looks(source).map((look) => look.style)));
  const options = shown.has(null) ? [["", t("stored-data")]] : [];
  for (const { id, title } of layer.styles) {
    if (shown.delete(id)) options.push([id, title === id ? id : `${title} (${id})`]);
  }
  return options;
}

/** Return the formats of maps in the chosen style; an empty list for tiles. */
export function formatsOf({ source, look }) {
  return source.type === "maps" ? look.formats : [];
}
