// Drawing of a line or an area on the map.

import Feature from "ol/Feature.js";
import GeoJSON from "ol/format/GeoJSON.js";
import Draw, { createBox } from "ol/interaction/Draw.js";
import VectorLayer from "ol/layer/Vector.js";
import VectorSource from "ol/source/Vector.js";

const drawn = new VectorLayer({
  source: new VectorSource({ wrapX: false }),
  zIndex: 200,
  style: { "stroke-color": "#c2571a", "stroke-width": 2.5, "fill-color": "#c2571a33" },
});
/** Different points that a geometry needs. */
const FEWEST = { LineString: 2, Polygon: 3 };
let drawing = null;

/**
 * Return the geometry that the user draws, as GeoJSON; null if it is given up.
 *
 * @param kind "LineString", "Polygon", or "Box": a polygon around two corners
 * @param crs of the answer, degrees by default
 */
export function drawGeometry(view, kind, crs = "CRS:84") {
  removeDrawing(view);
  drawn.setMap(view.map);
  // Unlike a circle with the shape of a box, a line with two points can be drawn by keyboard.
  const box = { type: "LineString", maxPoints: 2, geometryFunction: createBox() };
  drawing = new Draw({ source: drawn.getSource(), ...(kind === "Box" ? box : { type: kind }) });
  view.map.addInteraction(drawing);
  const map = view.map.getTargetElement();
  map.classList.add("drawing");
  map.focus();
  const keys = new AbortController();
  return new Promise((resolve) => {
    const isComplete = (geometry) => new Set(geometry.getCoordinates().flat(kind === "Polygon" ? 1 : 0).map(String)).size >= FEWEST[kind];
    let sketch = null;
    let last = "";
    const finish = (geometry) => {
      keys.abort();
      map.classList.remove("drawing");
      view.map.removeInteraction(drawing);
      drawing = null;
      resolve(geometry);
    };
    const press = (event) => {
      if (event.key === "Escape") finish(null);
      if (event.key !== "Enter" || event.target !== map) return;
      event.preventDefault();
      const place = view.map.getView().getCenter();
      // As a double click does, a second point at the same place ends the drawing.
      if (last !== String(place)) drawing.appendCoordinates([place]);
      else if (isComplete(sketch.getGeometry())) drawing.finishDrawing();
      last = String(place);
    };
    window.addEventListener("keydown", press, { signal: keys.signal });
    drawing.on("drawstart", ({ feature }) => {
      sketch = feature;
    });
    drawing.on("drawend", ({ feature }) => {
      const options = { featureProjection: view.crs, dataProjection: crs, decimals: 7 };
      // The click that ends the drawing is not a question about features.
      setTimeout(() => finish(new GeoJSON().writeGeometryObject(feature.getGeometry(), options)), 300);
    });
  });
}

/** Show a geometry in the CRS of the map. */
export function showGeometry(view, geometry) {
  removeDrawing(view);
  drawn.setMap(view.map);
  drawn.getSource().addFeature(new Feature(geometry));
}

export function removeDrawing(view) {
  if (drawing) view.map.removeInteraction(drawing);
  drawn.getSource().clear();
}
