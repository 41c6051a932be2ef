// The map: its view, its controls and the outline of a layer.

import Map from "ol/Map.js";
import View from "ol/View.js";
import Feature from "ol/Feature.js";
import FullScreen from "ol/control/FullScreen.js";
import ScaleLine from "ol/control/ScaleLine.js";
import Zoom from "ol/control/Zoom.js";
import { containsExtent, getCenter } from "ol/extent.js";
import Point from "ol/geom/Point.js";
import { fromExtent } from "ol/geom/Polygon.js";
import Graticule from "ol/layer/Graticule.js";
import VectorLayer from "ol/layer/Vector.js";
import { get } from "ol/proj.js";
import VectorSource from "ol/source/Vector.js";
import Stroke from "ol/style/Stroke.js";
import { byId, canvasOf } from "./dom.js";
import { levelsOf } from "./plans.js";
import { boxIn, cellIn } from "./projections.js";
import { t } from "./texts.js";

/** At cells coarser than this many times the coarsest ones, too many tiles would be in view. */
const FARTHEST = 8;
/** A small layer is enlarged up to this many times to fill the map. */
const LARGEST = 2;
/** Relative difference of a cell size in a link. */
const ROUNDED = 1e-7;
/** Pixels around a layer that fills the map. */
const MARGIN = 10;

export class MapView {
  constructor() {
    this.tiles = new Set();
    const controls = [
      new Zoom({ zoomInTipLabel: t("zoom-in"), zoomOutTipLabel: t("zoom-out"), duration: 150 }),
      new ScaleLine({ minWidth: 80 }),
      new FullScreen({ tipLabel: t("full-screen"), source: "stage", label: "", labelActive: "" }),
    ];
    this.edge = new VectorLayer({
      source: new VectorSource({ wrapX: false }),
      zIndex: 5,
      // No dashes: far outside the view, browsers would draw millions of them.
      style: { "stroke-color": "#b8763a", "stroke-width": 1 },
    });
    this.marked = new VectorLayer({
      source: new VectorSource({ wrapX: false }),
      zIndex: 150,
      updateWhileAnimating: true,
      style: {
        "circle-radius": 8,
        "circle-fill-color": "#c2571a",
        "circle-stroke-color": "#ffffff",
        "circle-stroke-width": 2.5,
        "text-value": ["get", "name"],
        "text-font": "600 13px system-ui, sans-serif",
        "text-fill-color": "#23211e",
        "text-stroke-color": "#ffffff",
        "text-stroke-width": 4,
        "text-offset-y": -20,
      },
    });
    this.graticule = new Graticule({
      strokeStyle: new Stroke({ color: "#00000066", width: 1 }),
      showLabels: true,
      wrapX: false,
      zIndex: 100,
      visible: false,
    });
    this.map = new Map({ target: "map", controls, layers: [this.edge, this.graticule, this.marked], maxTilesLoading: 16 });
    this.map.on(["loadstart", "movestart"], () => this.busy(true));
    this.map.on("rendercomplete", () => this.busy(!this.isFresh));
  }

  /** Tell programs, such as screen readers, whether the map is complete. */
  busy(isBusy) {
    byId("map").setAttribute("aria-busy", isBusy);
  }

  /** Wait for the next frame, in which a change will be visible: then the map is fresh. */
  changed() {
    this.busy(true);
    this.isFresh = false;
    this.map.once("postrender", () => {
      this.isFresh = true;
    });
    this.map.render();
  }

  /**
   * Show a CRS at a view {x, y, cellSize} or, if there is none, at a box of this CRS.
   *
   * @param set tile matrix set of the layer, whose cell sizes are those of the view
   * @param box by default that of the set; if it has no place in the CRS, the area of the CRS
   */
  show(crs, set, view, box = boxIn(set.bbox, set.crs, crs)) {
    this.crs = crs;
    this.home = box ?? get(crs).getExtent();
    const shown = new View({
      projection: crs,
      resolutions: set.resolutions.map((cell) => cellIn(cell, set.crs, crs)),
      enableRotation: false,
      smoothExtentConstraint: false,
      multiWorld: true,
      center: view ? [view.x, view.y] : getCenter(this.home),
    });
    this.map.setView(shown);
    this.nearest = cellIn(levelsOf(set).at(-1).cellSize, set.crs, crs) / LARGEST;
    // Rounded in a link, the cell size of a level may belong to the next one.
    const isSame = (cell) => Math.abs(cell / view.cellSize - 1) < ROUNDED;
    if (view) shown.setResolution(shown.getResolutions().find(isSame) ?? view.cellSize);
    else this.zoomHome(0);
    this.marked.getSource().clear();
    this.edge.getSource().clear();
    if (box) this.edge.getSource().addFeature(new Feature(fromExtent(box)));
    this.tiles.forEach((tiles) => this.limit(tiles));
    this.changed();
  }

  /** Show the whole box; it fills the map, unless it is very small. */
  zoomHome(duration = 250) {
    const padding = Array(4).fill(MARGIN);
    this.map.getView().fit(this.home, { size: this.map.getSize(), padding, minResolution: this.nearest, duration });
  }

  /** Return whether the whole box is visible. */
  showsHome() {
    return containsExtent(this.box, this.home);
  }

  /** Zoom to a place, in no more than a given cell size, and mark it. */
  goTo(place, cellSize, name = "") {
    this.marked.getSource().clear();
    this.marked.getSource().addFeature(new Feature({ geometry: new Point(place), name }));
    this.map.getView().animate({ center: place, resolution: Math.min(cellSize, this.cellSize), duration: 250 });
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

  add(tiles) {
    this.tiles.add(tiles);
    this.limit(tiles);
    this.map.addLayer(tiles.drawn);
    this.changed();
  }

  /** Hide tiles where too many of them would be needed, and where they have no place. */
  limit({ drawn, plan: { matrices, set, extent } }) {
    const box = boxIn(extent, set.crs, this.crs);
    drawn.setVisible(Boolean(box));
    drawn.setExtent(box ?? undefined);
    drawn.setMaxResolution(cellIn(matrices[0].cellSize * FARTHEST * 1.01, set.crs, this.crs));
  }

  remove(tiles) {
    this.tiles.delete(tiles);
    this.changed();
    this.map.removeLayer(tiles.drawn);
    tiles.drawn.dispose();
  }

  /** Show or hide lines of equal longitude and latitude. */
  toggleGraticule() {
    this.graticule.setVisible(!this.graticule.getVisible());
    return this.graticule.getVisible();
  }

  /** Return the visible map without controls, as a canvas; a colour fills what is transparent. */
  picture(ground = "transparent") {
    const ratio = window.devicePixelRatio || 1;
    const picture = canvasOf(...this.map.getSize().map((pixels) => Math.round(pixels * ratio)));
    const context = picture.getContext("2d");
    context.fillStyle = ground;
    context.fillRect(0, 0, picture.width, picture.height);
    for (const canvas of byId("map").querySelectorAll(".ol-layer canvas")) {
      if (!canvas.width) continue;
      context.globalAlpha = Number(canvas.parentNode.style.opacity || 1);
      context.setTransform(new DOMMatrix().scale(ratio).multiply(new DOMMatrix(canvas.style.transform)));
      context.drawImage(canvas, 0, 0);
    }
    return picture;
  }
}
