// Coarser tiles where finer levels have none: pyramids often have fine levels of some areas only.

import { canvasOf } from "./dom.js";

/** Coarse tiles that are kept, because many finer ones are drawn from each. */
const KEPT = 48;

/**
 * Return a function of (place, signal) that loads a tile, or else what coarser levels have there: a
 * promise of [{place, content}], the coarsest first; empty if no level has anything. Where a tile
 * exists, it answers alone: what it lacks is a hole.
 *
 * @param plan see plans.js
 * @param fetching function of (url, signal, place), as for the plan
 */
export function loaderOf(plan, fetching) {
  const kept = new Map();
  const coarse = (place) => {
    const key = String(place);
    if (!kept.has(key)) {
      const never = new AbortController().signal;
      kept.set(key, plan.load(place, never, fetching));
      kept.get(key).catch(() => kept.delete(key));
      if (kept.size > KEPT) kept.delete(kept.keys().next().value);
    }
    return kept.get(key);
  };
  const under = async (places) => {
    const found = await Promise.all(places.map(async (place) => ({ place, content: await coarse(place) })));
    const missing = found.filter(({ content }) => !content).flatMap(({ place }) => plan.coarser(place));
    const unique = [...new Map(missing.map((place) => [String(place), place])).values()];
    return [...(unique.length ? await under(unique) : []), ...found.filter(({ content }) => content)];
  };
  return async (place, signal) => {
    const content = await plan.load(place, signal, fetching);
    if (content) return [{ place, content }];
    return signal.aborted ? [] : under(plan.coarser(place));
  };
}

/** Return an image of a tile from those of coarser tiles: [{place, content}], the coarsest first. */
export function enlarged({ grid, matrices }, [z, row, col], found) {
  const { tileWidth, tileHeight, cellSize } = matrices[z];
  const canvas = canvasOf(tileWidth, tileHeight);
  const context = canvas.getContext("2d");
  const [left, , , top] = grid.getTileCoordExtent([z, col, row]);
  for (const { place, content } of found) {
    const [west, south, east, north] = grid.getTileCoordExtent([place[0], place[2], place[1]]);
    const scale = (east - west) / cellSize / content.width;
    context.setTransform(scale, 0, 0, (north - south) / cellSize / content.height, (west - left) / cellSize, (top - north) / cellSize);
    context.drawImage(content, 0, 0);
  }
  return canvas;
}
