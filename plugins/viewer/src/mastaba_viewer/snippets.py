"""Ready texts that show a layer in other programs."""

from __future__ import annotations

import json
from html import escape
from typing import TYPE_CHECKING, Any, Final
from xml.sax.saxutils import quoteattr

from mastaba_viewer.kinds import is_picture
from mastaba_viewer.sources.common import picture_formats, publisher, with_query
from mastaba_viewer.sources.heights import heights

if TYPE_CHECKING:
    from mastaba.api.catalogue import Layer
    from mastaba.api.services import Site

_WEB_MERCATOR: Final = 156543.03392804097
"""Cell size of zoom 0 with tiles of 256 pixels, in metres."""

# Libraries of the pages that users copy; their own pages never load them.
_CDN: Final = "https://cdn.jsdelivr.net/npm"
_PAGE: Final = """<!doctype html>
<meta charset="utf-8">
<title>{title}</title>
{head}
<style>html, body, #map {{ height: 100%; margin: 0 }}</style>
<div id="map"></div>
<script{kind}>
{script}
</script>
"""


def snippets(layer: Layer, site: Site, found: list[dict[str, Any]]) -> list[dict[str, str]]:
    """Return the texts for the programs that can show a layer.

    Args:
        layer: the layer.
        site: site of the layer.
        found: its sources.

    Returns:
        objects with ``id``, ``title``, ``file`` (name to save the text as) and ``text``.
    """
    tiles = next((source for source in found if source["id"] == "tms"), None)
    made = [
        *_of_wmts(layer, site),
        *(_of_tiles(layer, tiles) if tiles and _is_web_mercator(layer) else []),
        *_of_wms(layer, site),
        *_of_terrain(layer, site),
    ]
    return [
        {"id": name, "title": title, "file": file, "text": text}
        for name, title, file, text in sorted(made, key=lambda item: _ORDER.index(item[0]))
    ]


_ORDER: Final = (
    *("qgis", "gdal", "owslib", "openlayers", "leaflet"),
    *("maplibre", "cesium", "mapproxy", "arcgis"),
)


def _of_wmts(layer: Layer, site: Site) -> list[tuple[str, str, str, str]]:
    service = publisher("wmts", layer, site)
    if service is None or layer.is_vector:
        return []
    uri = service.settings.endpoint_uri
    capabilities = with_query(uri, {"SERVICE": "WMTS", "REQUEST": "GetCapabilities"}, {})
    rest = f"{uri}/1.0.0/WMTSCapabilities.xml"
    gdal = f"WMTS:{capabilities},layer={layer.id}"
    python = f"""from owslib.wmts import WebMapTileService

wmts = WebMapTileService({uri!r})
layer = wmts[{layer.id!r}]
name, link = next(iter(layer.tilematrixsetlinks.items()))
matrix, limits = next(iter(link.tilematrixlimits.items()))
tile = wmts.gettile(
    layer=layer.id,
    tilematrixset=name,
    tilematrix=matrix,
    row=limits.mintilerow,
    column=limits.mintilecol,
    format=layer.formats[0],
)
with open("tile", "wb") as file:
    file.write(tile.read())
"""
    made = [
        ("gdal", "GDAL", f"{layer.id}.sh", f"gdalinfo {_shell(gdal)}\n"),
        ("owslib", "OWSLib", f"{layer.id}.py", python),
        ("arcgis", "ArcGIS", f"{layer.id}.txt", f"{rest}\n"),
    ]
    if not _is_web_mercator(layer):
        item = f"<wms name={quoteattr(layer.title)} url={quoteattr(capabilities)}/>"
        made.append(_qgis(layer, "WMS", item))
    if layer.pyramid.format.sample != "float32":
        script = f"""const answer = await fetch({_js(capabilities)});
const capabilities = new ol.format.WMTSCapabilities().read(await answer.text());
const options = ol.source.WMTS.optionsFromCapabilities(capabilities, {{ layer: {_js(layer.id)} }});
const source = new ol.source.WMTS(options);
const map = new ol.Map({{
  target: "map",
  layers: [new ol.layer.Tile({{ source }})],
  view: new ol.View({{ center: [0, 0], zoom: 1 }}),
}});
const extent = ol.proj.transformExtent({_js(_degrees(layer))}, "CRS:84", "EPSG:3857");
map.getView().fit(extent);"""
        if _is_web_mercator(layer):
            page = _page(layer, "ol@10.6.1/dist/ol.js", "ol@10.6.1/ol.css", script, module=True)
            made.append(("openlayers", "OpenLayers", f"{layer.id}.html", page))
    return made


def _qgis_tiles(layer: Layer, url: str, first: int, last: int) -> tuple[str, str, str, str]:
    """Return connections that the QGIS browser imports, under XYZ Tiles or Vector Tiles."""
    kind, item = ("VectorTile", "vectortile") if layer.is_vector else ("XYZTiles", "xyztiles")
    return _qgis(
        layer,
        kind,
        f"<{item} name={quoteattr(layer.title)} url={quoteattr(url)}"
        f' zmin="{first}" zmax="{last}"/>',
    )


def _qgis(layer: Layer, kind: str, item: str) -> tuple[str, str, str, str]:
    text = f"""<!DOCTYPE connections>
<qgs{kind}Connections version="1.0">
    {item}
</qgs{kind}Connections>
"""
    return "qgis", "QGIS", f"{layer.id}.xml", text


def _of_tiles(layer: Layer, source: dict[str, Any]) -> list[tuple[str, str, str, str]]:
    template = source["styles"][0]["template"]
    y = "{-y}" if source["fromBottom"] else "{y}"
    url = (
        template.replace("{TileMatrix}", "{z}").replace("{TileCol}", "{x}").replace("{TileRow}", y)
    )
    title, levels = layer.title, layer.pyramid.levels
    west, south, east, north = _degrees(layer)
    first, last = min(map(int, levels)), max(map(int, levels))
    if layer.pyramid.format.sample == "float32" or source["fromBottom"]:
        return []
    maplibre = _vector_style(layer, url) if layer.is_vector else _raster_style(url, first, last)
    # MapLibre GL shows nothing below the first level. Its zoom 0 has 512 pixels, as vector tiles
    # always have there; pictures of 256 pixels are one level finer.
    lowest = first if layer.is_vector else max(first - 1, 0)
    script = f"""new maplibregl.Map({{
  container: "map",
  bounds: {_js([west, south, east, north])},
  minZoom: {lowest},
  style: {maplibre},
}});"""
    page = _maplibre_page(layer, script)
    made = [
        _qgis_tiles(layer, url, first, last),
        ("maplibre", "MapLibre GL", f"{layer.id}.html", page),
    ]
    if layer.is_vector or layer.pyramid.format.needs_tiff_header:
        return made
    leaflet = f"""const map = L.map("map");
L.tileLayer({_js(url)}, {{ minZoom: {first}, maxNativeZoom: {last} }}).addTo(map);
map.fitBounds({_js([[south, west], [north, east]])});"""
    cesium = f"""const viewer = new Cesium.Viewer("map", {{
  baseLayer: new Cesium.ImageryLayer(new Cesium.UrlTemplateImageryProvider({{
    url: {_js(url)},
    maximumLevel: {last},
  }})),
  baseLayerPicker: false,
  geocoder: false,
}});
viewer.camera.setView({{
  destination: Cesium.Rectangle.fromDegrees({west}, {south}, {east}, {north}),
}});"""
    proxy = json.dumps(url.replace("{z}", "%(z)s").replace("{x}", "%(x)s").replace("{y}", "%(y)s"))
    mapproxy = f"""services:
  demo:
  wmts:
layers:
  - name: {json.dumps(layer.id)}
    title: {json.dumps(title)}
    sources: [cache]
caches:
  cache:
    grids: [GLOBAL_WEBMERCATOR]
    sources: [tiles]
sources:
  tiles:
    type: tile
    grid: GLOBAL_WEBMERCATOR
    url: {proxy}
"""
    return [
        *made,
        (
            "leaflet",
            "Leaflet",
            f"{layer.id}.html",
            _page(
                layer, "leaflet@1.9.4/dist/leaflet.js", "leaflet@1.9.4/dist/leaflet.css", leaflet
            ),
        ),
        (
            "cesium",
            "Cesium",
            f"{layer.id}.html",
            _cesium_page(layer, cesium),
        ),
        ("mapproxy", "MapProxy", "mapproxy.yaml", mapproxy),
    ]


def _of_wms(layer: Layer, site: Site) -> list[tuple[str, str, str, str]]:
    """Return what only WMS can show: layers that are not in Web Mercator."""
    service, style = publisher("wms", layer, site), layer.default_style
    if service is None or style is None or "," in layer.id or _is_web_mercator(layer):
        return []
    formats = picture_formats(site)
    if not formats or not is_picture(layer, style):
        return []
    uri, box = service.settings.endpoint_uri, _degrees(layer)
    script = f"""const map = L.map("map");
L.tileLayer.wms({_js(uri)}, {{
  layers: {_js(layer.id)},
  format: {_js(formats[0])},
  transparent: true,
}}).addTo(map);
map.fitBounds({_js([[box[1], box[0]], [box[3], box[2]]])});"""
    page = _page(layer, "leaflet@1.9.4/dist/leaflet.js", "leaflet@1.9.4/dist/leaflet.css", script)
    return [("leaflet", "Leaflet", f"{layer.id}.html", page)]


def _of_terrain(layer: Layer, site: Site) -> list[tuple[str, str, str, str]]:
    """Return what shows heights in 3D."""
    terrain = heights(layer, site).get("terrain")
    if terrain is None:
        return []
    west, south, east, north = _degrees(layer)
    maplibre = f"""new maplibregl.Map({{
  container: "map",
  bounds: {_js([west, south, east, north])},
  pitch: 60,
  style: {_js(f"{terrain}/style.json")},
}});"""
    cesium = f"""const terrainProvider = await Cesium.CesiumTerrainProvider.fromUrl(
  {_js(f"{terrain}/mesh")},
  {{ requestVertexNormals: true }},
);
const viewer = new Cesium.Viewer("map", {{
  baseLayer: false,
  terrainProvider,
  baseLayerPicker: false,
  geocoder: false,
}});
viewer.scene.globe.baseColor = Cesium.Color.WHITE;
viewer.scene.globe.enableLighting = true;
viewer.camera.setView({{
  destination: Cesium.Rectangle.fromDegrees({west}, {south}, {east}, {north}),
}});"""
    return [
        ("maplibre", "MapLibre GL", f"{layer.id}.html", _maplibre_page(layer, maplibre)),
        ("cesium", "Cesium", f"{layer.id}.html", _cesium_page(layer, cesium)),
    ]


def _maplibre_page(layer: Layer, code: str) -> str:
    library = "maplibre-gl@6/dist/maplibre-gl"
    script = f'import * as maplibregl from "{_CDN}/{library}.mjs";\n{code}'
    return _page(layer, None, f"{library}.css", script)


def _cesium_page(layer: Layer, code: str) -> str:
    library = "cesium@1.145/Build/Cesium"
    sheet = f"{library}/Widgets/widgets.css"
    return _page(layer, f"{library}/Cesium.js", sheet, code, module=True)


def _page(layer: Layer, script: str | None, sheet: str, code: str, *, module: bool = False) -> str:
    """Return a page with a map; without a script, the code imports the library itself."""
    head = f'<link rel="stylesheet" href="{_CDN}/{sheet}">'
    if script:
        head += f'\n<script src="{_CDN}/{script}"></script>'
    kind = ' type="module"' if module or not script else ""
    return _PAGE.format(title=escape(layer.title), head=head, kind=kind, script=code)


def _raster_style(url: str, first: int, last: int) -> str:
    source = {"type": "raster", "tiles": [url], "tileSize": 256, "minzoom": first, "maxzoom": last}
    layers = [{"id": "layer", "type": "raster", "source": "layer"}]
    return _js({"version": 8, "sources": {"layer": source}, "layers": layers})


def _vector_style(layer: Layer, url: str) -> str:
    levels = sorted(map(int, layer.pyramid.levels))
    source = {"type": "vector", "tiles": [url], "minzoom": levels[0], "maxzoom": levels[-1]}
    kinds = {"POINT": "circle", "LINESTRING": "line", "POLYGON": "fill"}
    tables = {
        table.name: table for level in layer.pyramid.levels.values() for table in level.tables
    }
    layers = [
        {
            "id": name,
            "type": kinds.get(table.geometry.removeprefix("MULTI"), "line"),
            "source": "layer",
            "source-layer": name,
        }
        for name, table in tables.items()
    ]
    return _js({"version": 8, "sources": {"layer": source}, "layers": layers})


def _is_web_mercator(layer: Layer) -> bool:
    """Return whether clients of XYZ tiles know the tile matrix set of a layer."""
    tile_matrix_set = layer.pyramid.tile_matrix_set
    return tile_matrix_set.crs.code == "EPSG:3857" and all(
        name.isdigit()
        and level.matrix.tile_width == level.matrix.tile_height == 256
        and abs(level.matrix.cell_size * 2 ** int(name) / _WEB_MERCATOR - 1) < 1e-6
        for name, level in layer.pyramid.levels.items()
    )


def _degrees(layer: Layer) -> list[float]:
    box = layer.geographic_bbox
    return [round(edge, 6) for edge in (box.xmin, box.ymin, box.xmax, box.ymax)]


def _js(value: object) -> str:
    """Return a value as JavaScript that cannot end the script element around it."""
    return json.dumps(value, ensure_ascii=False).replace("</", "<\\/").replace("<!--", "<\\!--")


def _shell(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
