// Tiles that browsers decode: PNG and JPEG.

import { GridTiles } from "./gridtiles.js";

export const ImageTiles = GridTiles.extend({
  makeElement() {
    const image = document.createElement("img");
    image.alt = "";
    return image;
  },

  draw(url, tile, signal) {
    return new Promise((resolve) => {
      tile.onload = () => resolve(true);
      tile.onerror = () => {
        tile.removeAttribute("src");
        resolve(false);
      };
      signal.addEventListener("abort", () => {
        tile.onload = null;
        tile.onerror = null;
        tile.removeAttribute("src");
      });
      tile.src = url;
    });
  },
});
