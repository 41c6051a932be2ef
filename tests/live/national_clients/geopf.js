import WMTS from "geopf-extensions-openlayers/src/packages/Sources/WMTS";
import { optionsFromCapabilities } from "ol/source/WMTS";
import WMTSCapabilities from "ol/format/WMTSCapabilities";
import OLMap from "ol/Map";
import View from "ol/View";
import TileLayer from "ol/layer/Tile";
globalThis.geopf = { WMTS, optionsFromCapabilities, WMTSCapabilities, Map: OLMap, View, TileLayer };
