import "./page.js";
import assert from "node:assert/strict";
import { test } from "node:test";
import { extentValues, fill, isWithin, levelsOf, nearestLevel, planOf } from "../src/plans.js";

const matrix = (id, cellSize) => {
  const tiles = [0, 2 ** id - 1, 0, 2 ** id - 1];
  const place = { originX: 0, originY: 1024, tileWidth: 256, tileHeight: 256 };
  return { id: String(id), cellSize, matrixHeight: 2 ** id, tiles, ...place };
};
const SET = {
  id: "PM",
  crs: "EPSG:3857",
  northingFirst: false,
  matrices: [matrix(0, 4), matrix(1, 2), matrix(2, 1)],
  limits: { 1: [0, 1, 0, 1], 2: [0, 3, 1, 3] },
};
const TILES = { id: "tms", type: "tiles", sets: { PM: "P M" }, missing: 404, fromBottom: true };
const MAPS = { id: "ogc", type: "maps" };

test("levels are the matrices with tiles", () => {
  assert.deepEqual(levelsOf(SET).map(({ id }) => id), ["1", "2"]);
  assert.equal(nearestLevel(SET, 100).id, "1");
  assert.equal(nearestLevel(SET, 1.3).id, "2");
  assert.equal(nearestLevel(SET, 1.5).id, "1");
});

test("placeholders without a value stay", () => {
  assert.equal(fill("{a}/{b}/{a}", { a: 1 }), "1/{b}/1");
});

test("limits are inclusive", () => {
  assert.ok(isWithin([1, 2, 3, 4], 1, 3) && isWithin([1, 2, 3, 4], 2, 4));
  for (const [row, column] of [[0, 3], [3, 3], [1, 2], [1, 5]]) assert.ok(!isWithin([1, 2, 3, 4], row, column));
});

test("rows are counted from the side that the source wants", () => {
  const look = { template: "{TileMatrixSet}/{TileMatrix}/{TileCol}/{TileRow}" };
  const top = planOf({}, { source: { ...TILES, fromBottom: false }, set: SET, look }, {});
  const bottom = planOf({}, { source: TILES, set: SET, look }, {});
  assert.equal(top.url(1, 0, 2), "P%20M/2/2/0");
  assert.equal(bottom.url(1, 0, 2), "P%20M/2/2/3");
});

test("maps have the box of a tile, in the axis order of the CRS", () => {
  assert.equal(extentValues(SET, [1, 2, 3, 4], 5, 6).BBOX, "1,2,3,4");
  const northing = { ...SET, northingFirst: true };
  assert.equal(extentValues(northing, [1, 2, 3, 4], 5, 6).BBOX, "2,1,4,3");
  const look = { template: "?b={BBOX}&w={WIDTH}&f={FORMAT}&t={TRANSPARENT}" };
  const options = { format: "image/png", transparent: true };
  const plan = planOf({}, { source: MAPS, set: SET, look }, options);
  // Two levels above the coarsest one do not exist: the list begins with the first matrix.
  assert.equal(plan.matrices.length, 3);
  assert.equal(plan.url(2, 1, 2), "?b=512,512,768,768&w=256&f=png&t=true");
  const wms = planOf({}, { source: { ...MAPS, id: "wms" }, set: SET, look }, options);
  assert.equal(wms.url(2, 1, 2), "?b=512,512,768,768&w=256&f=image/png&t=TRUE");
});

test("a tile that the server draws must not be missing, a stored one may", async () => {
  const look = { template: "" };
  const missing = async () => null;
  const { signal } = new AbortController();
  const stored = planOf({}, { source: TILES, set: SET, look }, {});
  assert.equal(await stored.load([1, 0, 0], signal, missing), null);
  const drawn = planOf({}, { source: MAPS, set: SET, look }, { format: "image/png" });
  await assert.rejects(drawn.load([2, 0, 0], signal, missing), /a tile is missing/);
  assert.equal(await drawn.load([2, 9, 9], signal, missing), null);
});

test("coarser places cover a tile", () => {
  const plan = planOf({}, { source: TILES, set: SET, look: { template: "" } }, {});
  assert.deepEqual(plan.coarser([1, 1, 2]), [[0, 0, 1]]);
  assert.deepEqual(plan.coarser([0, 0, 0]), []);
});
