import assert from "node:assert/strict";
import { test } from "node:test";
import { namesOf, nearest } from "../src/choice.js";

const look = (style, draws = true) => ({ style, draws });
const source = (id, offers, styles) => ({ id, offers, styles });
const LAYER = {
  sources: [
    source("wmts", ["PM", "UTM"], [look(undefined), look("relief")]),
    source("wms", ["PM"], [look("relief"), look("hidden", false)]),
    source("none", ["PM"], [look("hidden", false)]),
  ],
  sets: [{ id: "PM" }, { id: "UTM" }],
};

const names = (wanted, changed) => namesOf(nearest(LAYER, wanted, changed));

test("an exact choice is kept", () => {
  const wanted = { source: "wms", set: "PM", style: "relief" };
  assert.deepEqual(names(wanted, "source"), wanted);
});

test("the part that was changed has priority", () => {
  const wanted = { source: "wms", set: "UTM", style: "relief" };
  assert.deepEqual(names(wanted, "set"), { source: "wmts", set: "UTM", style: "relief" });
  assert.deepEqual(names(wanted, "source"), { source: "wms", set: "PM", style: "relief" });
});

test("the first of equal choices is taken", () => {
  assert.deepEqual(names({}, "set"), { source: "wmts", set: "PM", style: "" });
});

test("a source that draws nothing is never chosen", () => {
  assert.notEqual(names({ source: "none", set: "PM", style: "hidden" }, "source").source, "none");
  assert.equal(nearest({ sources: [LAYER.sources[2]], sets: LAYER.sets }, {}, "set"), null);
});
