import "./page.js";
import assert from "node:assert/strict";
import { test } from "node:test";
import { sourceName, sourceText } from "../src/sourcetext.js";

test("what is known of a source", () => {
  const row = { id: "a.tif", date: "2023-04-12", gsd: 0.2, licence: "etalab-2.0" };
  assert.equal(sourceText(row), "Flown on April 12, 2023, 20 cm, licence etalab-2.0");
  assert.equal(sourceText({ date: "2023" }), "Flown in 2023");
  assert.equal(sourceText({ date: "1950-06", gsd: 2.5, accuracy: 0.4 }), "Flown in June 1950, 2.5 m, ±40 cm");
  assert.equal(sourceText({ date: "2021-05-03T10:15:00Z" }), "Flown on 2021-05-03 10:15:00 UTC");
  assert.equal(sourceText({ start: "2019-04", end: "2023-09" }), "Flown between April 2019 and September 2023");
  assert.equal(sourceText({ accuracy: "about a metre" }), "about a metre");
  assert.equal(sourceText({ id: "a.tif" }), "");
});

test("names with campaigns", () => {
  assert.equal(sourceName({ id: "a.tif", group: "Flight 1" }), "a.tif (Flight 1)");
  assert.equal(sourceName({ id: "a.tif", title: "Flight 1", group: "Flight 1" }), "Flight 1");
});
