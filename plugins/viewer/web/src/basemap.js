// The basemap that the operator has configured: tiles of another server.

import TileLayer from "ol/layer/Tile.js";
import XYZ from "ol/source/XYZ.js";
import { byId } from "./dom.js";

/** Offer a basemap; return an object whose attribute "shown" lists its attribution while visible. */
export function showBasemap(view, basemap, onChange) {
  if (!basemap) return null;
  const { title, url, attribution, max_zoom: maxZoom = 19 } = basemap;
  const drawn = new TileLayer({ source: new XYZ({ url, maxZoom, transition: 0 }), zIndex: 0, visible: false });
  const state = { shown: [] };
  view.map.addLayer(drawn);
  byId("basemap-title").textContent = title;
  byId("basemap-field").hidden = false;
  byId("basemap").addEventListener("change", ({ target }) => {
    drawn.setVisible(target.checked);
    state.shown = target.checked ? [{ attribution: { title: attribution, url: "" } }] : [];
    view.changed();
    onChange();
  });
  return state;
}
