// Tiles that the browser shows by itself: PNG and JPEG.

import { GridTiles } from "./grid.js";

export const ImageTiles = GridTiles.extend({
  makeElement() {
    const image = document.createElement("img");
    image.alt = "";
    return image;
  },

  draw(coords, tile, signal) {
    return new Promise((resolve) => {
      tile.onload = () => resolve();
      // Most likely nothing is stored there, which is not worth a word.
      tile.onerror = () => {
        tile.removeAttribute("src");
        resolve();
      };
      signal.addEventListener("abort", () => {
        tile.onload = null;
        tile.onerror = null;
        tile.removeAttribute("src");
      });
      tile.src = this.tileUrl(coords);
    });
  },
});
