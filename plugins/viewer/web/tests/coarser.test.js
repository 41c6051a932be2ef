import "./page.js";
import assert from "node:assert/strict";
import { test } from "node:test";
import { loaderOf } from "../src/coarser.js";

const { signal } = new AbortController();

/** Return a plan of a quadtree with some tiles, and the places that were loaded. */
function planWith(tiles) {
  const loaded = [];
  const load = async (place) => {
    loaded.push(String(place));
    return tiles[String(place)] ?? null;
  };
  const coarser = ([z, row, col]) => (z ? [[z - 1, row >> 1, col >> 1]] : []);
  return { plan: { load, coarser }, loaded };
}

test("a tile that exists answers alone", async () => {
  const { plan, loaded } = planWith({ "2,3,3": "fine", "1,1,1": "coarse" });
  assert.deepEqual(await loaderOf(plan)([2, 3, 3], signal), [{ place: [2, 3, 3], content: "fine" }]);
  assert.deepEqual(loaded, ["2,3,3"]);
});

test("the nearest coarser tile takes its place, and is loaded once", async () => {
  const { plan, loaded } = planWith({ "1,1,1": "coarse", "0,0,0": "world" });
  const load = loaderOf(plan);
  for (const place of [[2, 3, 3], [2, 3, 2]]) {
    assert.deepEqual(await load(place, signal), [{ place: [1, 1, 1], content: "coarse" }]);
  }
  assert.deepEqual(loaded, ["2,3,3", "1,1,1", "2,3,2"]);
});

test("nothing is found where no level has a tile", async () => {
  assert.deepEqual(await loaderOf(planWith({}).plan)([3, 5, 5], signal), []);
});

test("a failed coarse tile is tried again", async () => {
  const { plan } = planWith({ "0,0,0": "world" });
  let fails = true;
  const load = loaderOf({
    ...plan,
    load: async (place) => {
      if (place[0] === 0 && fails) throw new Error("broken");
      return plan.load(place);
    },
  });
  await assert.rejects(load([1, 0, 0], signal), /broken/);
  fails = false;
  assert.deepEqual(await load([1, 0, 0], signal), [{ place: [0, 0, 0], content: "world" }]);
});

test("no coarser tile is loaded for a request that was given up", async () => {
  const { plan, loaded } = planWith({ "0,0,0": "world" });
  assert.deepEqual(await loaderOf(plan)([1, 0, 0], AbortSignal.abort()), []);
  assert.deepEqual(loaded, ["1,0,0"]);
});
