// Bundles the layers of WMS of terriajs: node build.mjs SOURCES TARGET.
//
// Its user interface is left out. What it exports by default is an object with any member.
import {build} from "esbuild";

const [sources, target] = process.argv.slice(2);
const ABSENT = `module.exports = new Proxy(function () {}, {
  get: (of, key) => key === "__esModule" ? false : module.exports});`;
const INTERFACE = /\/(ReactViews(?!.*Theme)|ReactViewModels|Charts)\//;

const withoutInterface = {
  name: "without-interface",
  setup(made) {
    made.onResolve({filter: /.*/}, async ({path, pluginData, ...more}) => {
      if (pluginData === "asked") return undefined;
      const found = await made.resolve(path, {...more, pluginData: "asked"});
      return INTERFACE.test(found.path) ? {path, namespace: "absent"} : found;
    });
    made.onLoad({filter: /.*/, namespace: "absent"}, () => ({contents: ABSENT}));
  },
};

await build({
  stdin: {
    contents: `export {default as Item} from "./lib/Models/Catalog/Ows/WebMapServiceCatalogItem";`,
    resolveDir: sources,
    loader: "ts",
  },
  bundle: true,
  format: "iife",
  globalName: "terria",
  outfile: target,
  tsconfig: `${sources}/tsconfig.json`,
  nodePaths: [`${import.meta.dirname}/node_modules`],
  define: {"process.env.NODE_ENV": '"production"', global: "window"},
  loader: {".scss": "empty"},
  plugins: [withoutInterface],
  logLevel: "error",
});
