// The parts of a browser page that modules read when they are loaded. Tests import this first.

globalThis.document = {
  body: { dataset: { base: "/viewer" } },
  documentElement: { lang: "en" },
  querySelectorAll: () => [],
  // For lit-html, which makes one when it is loaded.
  createTreeWalker: () => ({}),
};
