import "./page.js";
import assert from "node:assert/strict";
import { test } from "node:test";
import { isNodata } from "../src/decoding.js";
import { fragment } from "../src/state.js";
import { fixed, number, t, threeDigits } from "../src/texts.js";

test("numbers", () => {
  assert.equal(fixed(-0.04, 1), "0.0");
  assert.equal(fixed(1234.56, 1), "1234.6");
  assert.equal(number(1234.5, 1), "1,234.5");
  assert.equal(number(-0.04, 1), "0.0");
  assert.equal(threeDigits(0.012345), "0.0123");
  assert.equal(threeDigits(1234.5), "1235");
});

test("placeholders of texts", () => {
  assert.ok(t("failed", { message: "no network" }).includes("no network"));
});

test("places in the URL are rounded to a tenth of a pixel", () => {
  const view = { x: 123456.789, y: -0.123456, cellSize: 10 };
  assert.equal(fragment(view), "#at=123457,0,10");
  assert.equal(fragment({ x: 2.123456789, y: 48, cellSize: 0.001 }, { source: "a b", set: undefined }), "#at=2.1235,48,0.001&source=a%20b");
});

test("nodata is rounded like stored values, and huge values mean nothing", () => {
  assert.ok(isNodata(Math.fround(-99999.1), [-99999.1]));
  assert.ok(isNodata(-3.4e38, [0]));
  assert.ok(!isNodata(1, [0]));
});
