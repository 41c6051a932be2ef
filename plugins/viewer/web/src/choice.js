// The choice of source, tile matrix set and style of a layer, which depend on each other.

const WEIGHTS = { source: 1, style: 2, set: 4 };

/** Return every {source, set, look} that browsers can show. */
function choicesOf({ sources, sets }) {
  const pairs = sources.flatMap((source) => sets.map((set) => ({ source, set })));
  return pairs
    .filter(({ source, set }) => source.offers.includes(set.id))
    .flatMap((pair) => pair.source.styles.filter(({ draws }) => draws).map((look) => ({ ...pair, look })));
}

/**
 * Return the choice closest to the wanted one, or null if there is none. The part that the user
 * changed last has the highest priority; the others adapt to it.
 *
 * @param wanted identifiers of source, set and style; omitted parts do not matter
 * @param changed the part that was changed: "source", "set" or "style"
 */
export function nearest(layer, wanted, changed) {
  const weights = Object.entries({ ...WEIGHTS, [changed]: 8 });
  const score = (choice) => {
    const names = namesOf(choice);
    return weights.reduce((sum, [part, weight]) => sum + (names[part] === wanted[part] ? weight : 0), 0);
  };
  return choicesOf(layer).reduce((best, one) => (best && score(best) >= score(one) ? best : one), null);
}

/** Return the identifiers of a choice, as in controls and in the URL; stored data have no style. */
export function namesOf({ source, set, look }) {
  return { source: source.id, set: set.id, style: look.style ?? "" };
}
