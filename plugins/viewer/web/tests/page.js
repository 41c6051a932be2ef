// The parts of a browser page that modules read when they are loaded. Tests import this first.

// Canvases, which some modules draw on when they are loaded.
const anything = new Proxy(() => anything, { get: () => anything });

globalThis.document = {
  body: { dataset: { base: "/viewer" } },
  documentElement: { lang: "en" },
  querySelectorAll: () => [],
  // For lit-html, which makes one when it is loaded.
  createTreeWalker: () => ({}),
  createElement: anything,
};
