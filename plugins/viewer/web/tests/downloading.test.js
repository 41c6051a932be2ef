import "./page.js";
import assert from "node:assert/strict";
import { test } from "node:test";
import { addressOf, curl, excessText, follow, inputsOf, refusalText, sizeText, timeText } from "../src/downloading.js";

const REL = "http://www.opengis.net/def/rel/ogc/1.0";
const selection = { box: [1.1, 2, 3, 4.0000000000000009], area: { type: "Polygon" }, crs: "EPSG:2154", levels: ["a/b"] };

test("a polygon is the area of formats that take one, its box that of others", () => {
  const tiles = { inputs: { layer: "L", format: "pmtiles" }, takes: ["area", "levels"] };
  const { area, crs, levels } = selection;
  assert.deepEqual(inputsOf(tiles, selection), { layer: "L", format: "pmtiles", area, crs, levels });
  assert.deepEqual(inputsOf({ inputs: {} }, { ...selection, levels: [] }), { bbox: [1.1, 2, 3, 4], crs });
});

test("the address of a file has the box and the level", () => {
  const template = "/c?subset=E({xmin}:{xmax}),N({ymin}:{ymax})&level={level}";
  assert.equal(addressOf({ template }, selection), "/c?subset=E(1.1:3),N(2:4)&level=a%2Fb");
});

test("a mask is an input of a job, and a parameter of an address", () => {
  const masked = { ...selection, levels: [], mask: true };
  assert.equal(inputsOf({ inputs: {} }, masked).mask, true);
  assert.equal(addressOf({ template: "/c?x={xmin}" }, masked), "/c?x=1.1&mask=true");
  assert.equal("mask" in inputsOf({ inputs: {} }, { ...masked, mask: false }), false);
});

test("sizes and times for reading", () => {
  assert.deepEqual([0, 999, 1000, 123_456_789, 5e16].map(sizeText), ["0 B", "999 B", "1.0 kB", "123 MB", "50.0 PB"]);
  assert.deepEqual([0.1, 89, 600, 9000].map(timeText), ["1 s", "89 s", "10 min", "2.5 h"]);
});

test("limits in plain words, with their numbers", () => {
  const estimate = { tiles: 5, bytes: 3000, pixels: 1 };
  assert.match(excessText({ estimate, limits: { bytes: 2000, tiles: 9, pixels: 9 } }), /3\.0 kB.* 2\.0 kB/);
  assert.match(refusalText({ status: 413, problem: { tiles: 7000, limit: 10 } }), /7,000 tiles.* 10 tiles/);
  assert.match(refusalText({ status: 413, problem: {} }), /smaller area/);
  assert.match(refusalText({ status: 429, wait: 30 }), /30 s/);
  assert.match(refusalText({ status: 507, wait: NaN }), /no room.*60 s/);
  assert.match(refusalText({ status: 400, message: "no such level" }), /no such level/);
});

test("commands are safe in a shell", () => {
  assert.equal(curl("http://h/a?b=c&d=$(e)", "it's.tif"), `curl -g -C - -o 'it'\\''s.tif' 'http://h/a?b=c&d=$(e)'`);
});

test("a job is followed until its result, also if an answer is missing", async () => {
  const link = (rel, href) => ({ rel, href });
  const job = { status: "accepted", links: [link("self", "/job")] };
  const done = { status: "successful", links: [link(`${REL}/results`, "/results")] };
  const answers = [{ ...job, status: "running" }, null, done, { result: { href: "/file" } }];
  const asked = [];
  globalThis.fetch = async (url) => {
    asked.push(url);
    const answer = answers.shift();
    if (!answer) throw new TypeError("no network");
    return { ok: true, json: async () => answer };
  };
  const shown = [];
  const result = await follow(job, ({ status }) => shown.push(status), [0]);
  assert.deepEqual(result, { href: "/file" });
  assert.deepEqual(shown, ["running", "running", "successful"]);
  assert.deepEqual(asked, ["/job", "/job", "/job", "/results"]);
});

test("a job that no longer exists ends the questions", async () => {
  const headers = new Headers();
  globalThis.fetch = async () => ({ ok: false, status: 404, headers, json: async () => ({ detail: "no such job" }) });
  const job = { status: "running", links: [{ rel: "self", href: "/job" }] };
  await assert.rejects(follow(job, () => {}, [0]), /no such job/);
});
