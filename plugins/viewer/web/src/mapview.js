// The map: its view, its controls and the outline of a layer.

import Map from "ol/Map.js";
import View from "ol/View.js";
import Feature from "ol/Feature.js";
import FullScreen from "ol/control/FullScreen.js";
import ScaleLine from "ol/control/ScaleLine.js";
import Zoom from "ol/control/Zoom.js";
import { getCenter } from "ol/extent.js";
import { fromExtent } from "ol/geom/Polygon.js";
import Graticule from "ol/layer/Graticule.js";
import VectorLayer from "ol/layer/Vector.js";
import { transform } from "ol/proj.js";
import VectorSource from "ol/source/Vector.js";
import Stroke from "ol/style/Stroke.js";
import Style from "ol/style/Style.js";
import { byId, element } from "./dom.js";
import { levelsOf } from "./levels.js";
import { cellIn } from "./projections.js";
import { t } from "./texts.js";

/** Number of resolutions beyond the levels of the layer, where tiles are scaled. */
const COARSER = 2;
const FINER = 3;
const ACCENT = "#b8763a";

export class MapView {
  constructor() {
    this.crs = null;
    this.home = null;
    /** Whether the last change is in what is drawn. */
    this.isFresh = false;
    const controls = [
      new Zoom({ zoomInTipLabel: t("zoom-in"), zoomOutTipLabel: t("zoom-out"), duration: 150 }),
      new ScaleLine({ minWidth: 80 }),
    ];
    if (document.fullscreenEnabled) controls.push(new FullScreen({ tipLabel: t("full-screen"), source: "stage", label: "", labelActive: "" }));
    this.map = new Map({ target: "map", controls, layers: [], maxTilesLoading: 16 });
    this.busy(true);
    this.map.on(["loadstart", "movestart"], () => this.busy(true));
    this.map.on("rendercomplete", () => this.busy(!this.isFresh));
    this.edge = new VectorLayer({
      source: new VectorSource({ wrapX: false }),
      zIndex: 5,
      // No dashes: far outside the view, browsers would draw millions of them.
      style: new Style({ stroke: new Stroke({ color: ACCENT, width: 1 }) }),
    });
    this.map.addLayer(this.edge);
    this.graticule = null;
  }

  /** Tell programs, such as screen readers, whether the map is complete. */
  busy(isBusy) {
    byId("map").setAttribute("aria-busy", isBusy);
  }

  /** Wait for the next frame, in which a change will be visible. */
  changed() {
    this.busy(true);
    this.isFresh = false;
    this.map.once("postrender", () => {
      this.isFresh = true;
    });
    this.map.render();
  }

  /** Add a control with a button to the column of buttons. */
  addButton(name, text, onClick) {
    const button = element("button", { type: "button", id: name, className: "tool", title: text, "aria-label": text });
    button.addEventListener("click", onClick);
    byId("tools").append(button);
    return button;
  }

  /**
   * Show a CRS at a view {x, y, cellSize} or, if there is none, at a box.
   *
   * @param set tile matrix set of the layer, whose cell sizes are those of the view
   */
  show(crs, set, view, box) {
    const resolutions = resolutionsOf(set).map((cell) => cellIn(cell, set.crs, crs));
    this.crs = crs;
    this.home = box;
    const levels = levelsOf(set).map(({ cellSize }) => cellIn(cellSize, set.crs, crs));
    const options = {
      projection: crs,
      resolutions,
      constrainResolution: true,
      enableRotation: false,
      smoothExtentConstraint: false,
      multiWorld: true,
    };
    const center = view ? [view.x, view.y] : getCenter(box);
    const made = new View({ ...options, center });
    this.map.setView(made);
    if (view) made.setResolution(view.cellSize);
    else this.zoomTo(box, levels[levels.length - 1], 0);
    this.outline(box);
    this.changed();
  }

  /** Move to a box; cells become no smaller than given. */
  zoomTo(box, finest = 0, duration = 250) {
    const padding = [10, 10, 10, 10];
    this.map.getView().fit(box, { size: this.map.getSize(), padding, minResolution: finest, duration });
  }

  /** Move to a position, without changing the cell size. */
  goTo(place) {
    this.map.getView().animate({ center: place, duration: 250 });
  }

  get view() {
    const [x, y] = this.map.getView().getCenter();
    return { x, y, cellSize: this.cellSize };
  }

  get cellSize() {
    return this.map.getView().getResolution();
  }

  /** Visible box: west, south, east, north. */
  get box() {
    return this.map.getView().calculateExtent(this.map.getSize());
  }

  outline(box) {
    const source = this.edge.getSource();
    source.clear();
    source.addFeature(new Feature(fromExtent(box)));
  }

  add(tiles) {
    tiles.limit(this.crs);
    this.map.addLayer(tiles.drawn);
    this.changed();
  }

  remove(tiles) {
    this.changed();
    this.map.removeLayer(tiles.drawn);
    tiles.drawn.dispose();
  }

  /** Show or hide lines of equal longitude and latitude. */
  toggleGraticule() {
    if (this.graticule) {
      this.map.removeLayer(this.graticule);
      this.graticule = null;
      return false;
    }
    this.graticule = new Graticule({
      strokeStyle: new Stroke({ color: "#00000066", width: 1 }),
      showLabels: true,
      wrapX: false,
      zIndex: 100,
    });
    this.map.addLayer(this.graticule);
    return true;
  }

  /** Return the visible map without controls, as a canvas. */
  picture() {
    const [width, height] = this.map.getSize();
    const ratio = window.devicePixelRatio || 1;
    const picture = element("canvas", { width: Math.round(width * ratio), height: Math.round(height * ratio) });
    const context = picture.getContext("2d");
    for (const canvas of byId("map").querySelectorAll(".ol-layer canvas")) {
      if (!canvas.width) continue;
      context.globalAlpha = Number(canvas.parentNode.style.opacity || 1);
      const matrix = canvas.style.transform.match(/^matrix\(([^)]*)\)$/)?.[1].split(",").map(Number);
      context.setTransform(...(matrix ?? [1, 0, 0, 1, 0, 0]).map((value) => value * ratio));
      context.drawImage(canvas, 0, 0);
    }
    return picture;
  }

  fromDegrees(place) {
    return transform(place, "CRS:84", this.crs);
  }
}

/** Return the cell sizes for the view: those of the levels, and some coarser and finer ones. */
function resolutionsOf(set) {
  const levels = levelsOf(set);
  const first = set.matrices.indexOf(levels[0]);
  const last = set.matrices.indexOf(levels[levels.length - 1]);
  const cells = set.matrices.slice(Math.max(0, first - COARSER), last + FINER + 1).map(({ cellSize }) => cellSize);
  for (let missing = COARSER - first; missing > 0; missing -= 1) cells.unshift(cells[0] * 2);
  for (let missing = last + FINER + 1 - set.matrices.length; missing > 0; missing -= 1) {
    cells.push(cells[cells.length - 1] / 2);
  }
  return cells;
}
