// MapLibre styles of vector tiles. Loaded on first use: few layers have one.

import { stylefunction } from "ol-mapbox-style";
import { fetchJson } from "./fetching.js";

/** Style at the end of the name of a font, such as that of Noto Sans Bold Italic. */
const FACE = /( (Thin|Light|Regular|Medium|SemiBold|Bold|ExtraBold|Black|Italic))+$/;

const asked = new Set();

/** Load fonts from the addresses that a style names; until they are there, the browser uses others. */
function loadFonts(fonts, template = "", onLoad) {
  for (const font of fonts) {
    const family = font.replace(FACE, "");
    const url = template
      .replace("{font-family}", family.replaceAll(" ", "-").toLowerCase())
      .replace("{fontweight}", "400")
      .replace("{-fontstyle}", font.includes("Italic") ? "-italic" : "");
    if (url && !asked.has(url)) {
      asked.add(url);
      const link = Object.assign(document.createElement("link"), { rel: "stylesheet", href: url });
      link.addEventListener("load", () => void document.fonts.load(`16px "${family}"`).then(onLoad));
      document.head.append(link);
    }
  }
  return fonts;
}

/**
 * Draw a layer of vector tiles as a style says, except for its background.
 *
 * @param drawn layer of the map library
 * @param address URL of the style
 * @param cellOf returns the cell size in Web Mercator of one of the map
 */
export async function dress(drawn, address, cellOf) {
  const style = await fetchJson(address);
  const own = Object.entries(style.sources).filter(([, { type }]) => type === "vector");
  const names = own.map(([name]) => name);
  const layers = style.layers.filter(({ source }) => names.includes(source)).map(({ id }) => id);
  const sprite = typeof style.sprite === "string" ? style.sprite : null;
  const icons = sprite && (await fetchJson(`${sprite}.json`));
  const redraw = () => drawn.setStyle(drawn.getStyle());
  const load = (wanted, template) => loadFonts(wanted, template, redraw);
  // Fonts of other origins need more rights than the page has; the browser has its own.
  const fonts = new URL(address, location.href).origin === location.origin ? load : undefined;
  const image = sprite && `${sprite}.png`;
  const made = stylefunction(drawn, style, layers, undefined, icons ?? undefined, image ?? undefined, fonts);
  drawn.setStyle((feature, cell) => made(feature, cellOf(cell)));
}
