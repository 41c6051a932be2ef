// Bundles the layers of WMS of terriajs: node build.mjs SOURCES TARGET.
//
// Its user interface and the like are left out. In their place is an object with any member.
import {build} from "esbuild";

const [sources, target] = process.argv.slice(2);
const ABSENT = `module.exports = new Proxy(function () {}, {
  get: (of, key) => key === "__esModule" || (key === "prototype" ? of.prototype : module.exports)});`;
const INTERFACE = /\/(ReactViews|ReactViewModels|Charts)\//;

const withoutInterface = {
  name: "without-interface",
  setup(made) {
    made.onResolve({filter: /.*/}, async ({path, pluginData, ...more}) => {
      if (pluginData === "asked") return undefined;
      const found = await made.resolve(path, {...more, pluginData: "asked"});
      const isAbsent = found.errors.length || INTERFACE.test(found.path);
      return isAbsent ? {path, namespace: "absent"} : found;
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
  plugins: [withoutInterface],
  logLevel: "error",
});
