// Bundles the scripts and style sheets: node build.mjs FOLDER

import { cp, readFile, readdir, writeFile } from "node:fs/promises";
import { join, relative } from "node:path";
import { build } from "esbuild";

const [, , target] = process.argv;
const pages = (await readdir("src/pages")).map((name) => `src/pages/${name}`);
const { metafile } = await build({
  entryPoints: pages,
  outdir: target,
  entryNames: "[name]",
  chunkNames: "chunks/[name]-[hash]",
  assetNames: "chunks/[name]-[hash]",
  bundle: true,
  splitting: true,
  minify: true,
  format: "esm",
  loader: { ".svg": "file" },
  target: ["es2022"],
  legalComments: "none",
  metafile: true,
  logLevel: "warning",
});
// A library that is loaded by its own address: MapLibre starts it as a worker.
await cp("node_modules/maplibre-gl/dist/maplibre-gl-worker.mjs", join(target, "maplibre-worker.js"));

// The modules that each page loads at once.
const modules = {};
const folder = relative(".", target);
for (const page of pages) {
  const name = page.split("/").pop();
  const found = new Set([join(folder, name)]);
  for (const path of found) {
    const loaded = metafile.outputs[path].imports.filter(({ kind }) => kind === "import-statement");
    for (const { path: next } of loaded) found.add(next);
  }
  modules[name] = [...found].slice(1).map((path) => relative(folder, path));
}
await writeFile(join(target, "modules.json"), JSON.stringify(modules));

const packages = new Set(["maplibre-gl"]);
for (const { inputs } of Object.values(metafile.outputs)) {
  for (const [path, { bytesInOutput }] of Object.entries(inputs)) {
    const found = path.match(/^(?:.*\/)?node_modules\/((?:@[^/]+\/)?[^/]+)/);
    if (found && bytesInOutput) packages.add(found[0].replace(/^node_modules\//, ""));
  }
}
const texts = [];
for (const name of [...packages].sort()) {
  const home = join("node_modules", name);
  const { version, license, homepage = "" } = JSON.parse(await readFile(join(home, "package.json"), "utf8"));
  const file = (await readdir(home)).find((one) => /^licen[cs]e/i.test(one));
  const text = file ? await readFile(join(home, file), "utf8") : `Licence: ${license}\n`;
  texts.push(`${"=".repeat(78)}\n${name} ${version} ${homepage}\n\n${text.trim()}\n`);
}
await writeFile(join(target, "licences.txt"), texts.join("\n"));
