// The basemap that the operator has configured: tiles of another server.

import TileLayer from "ol/layer/Tile.js";
import XYZ from "ol/source/XYZ.js";
import { byId } from "./dom.js";

/** Bind the control; return a function that returns the basemap as a layer while it is visible. */
export function bindBasemap(view, basemap, onChange) {
  if (!basemap) return () => [];
  const { url, attribution: title, max_zoom: maxZoom = 19 } = basemap;
  const drawn = new TileLayer({ source: new XYZ({ url, maxZoom, transition: 0 }), zIndex: 0, visible: false });
  view.map.addLayer(drawn);
  byId("basemap").addEventListener("change", ({ target }) => {
    drawn.setVisible(target.checked);
    view.changed();
    onChange();
  });
  return () => (drawn.getVisible() ? [{ attribution: { title, url: "" } }] : []);
}
