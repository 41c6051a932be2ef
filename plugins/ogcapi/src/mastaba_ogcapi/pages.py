"""HTML pages for each resource, built from its JSON document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from mastaba.web.markup import anchor
from mastaba_ogcapi.html import (
    Crumb,
    base_path,
    facts,
    heading,
    links,
    local,
    page,
    paragraph,
    table,
)
from mastaba_ogcapi.links import REL

if TYPE_CHECKING:
    from mastaba_ogcapi.dataset import Dataset

Content = Mapping[str, Any]

_COLLECTIONS: Final = ("Collections", "/collections")
_SETS: Final = ("Tile matrix sets", "/tileMatrixSets")
_PREVIEW: Final = 512
"""Pixels."""


def landing(dataset: Dataset, content: Content) -> str:
    """Return the HTML landing page."""
    others = [("JSON", "?f=json"), ("OpenAPI", "/api?f=json"), ("OpenAPI in YAML", "/api?f=yaml")]
    base = base_path(dataset.uri)
    resources = [
        (f"{base}/collections", f"Collections ({len(dataset.collections)})"),
        (f"{base}/tileMatrixSets", "Tile matrix sets"),
        (f"{base}/api", "Operations of the API"),
        (f"{base}/conformance", "Conformance classes"),
    ]
    if dataset.has_dataset_map:
        resources.append((f"{base}/map?width=1024", "Map of the dataset"))
    resources += [
        (item["href"], item["title"])
        for item in content["links"]
        if item["rel"] in ("describedby", "preview")
    ]
    body = paragraph(content["description"]) + links(resources)
    return page(dataset, content["title"], None, body, others)


def conformance(dataset: Dataset, content: Content) -> str:
    """Return the page for the conformance declaration."""
    rows = [[f"<code>{escape(item)}</code>"] for item in content["conformsTo"]]
    body = table(["Class"], rows)
    return page(dataset, "Conformance classes", [], body, [("JSON", "/conformance?f=json")])


def collections(dataset: Dataset, content: Content) -> str:
    """Return the page for the list of collections."""
    rows = [
        [
            anchor(local(dataset, _own(item["links"])), item["title"])
            + paragraph(_shortened(item["description"]), "quiet"),
            escape(item["dataType"]),
            f"<code>{escape(_short_crs(item['storageCrs']))}</code>",
        ]
        for item in content["collections"]
    ]
    body = paragraph(f"{content['numberMatched']} collections", "quiet")
    body += table(["Collection", "Data", "CRS"], rows)
    return page(dataset, "Collections", [], body, [("JSON", "/collections?f=json")])


def collection(dataset: Dataset, content: Content) -> str:
    """Return the page for a collection."""
    spatial = content["extent"]["spatial"]
    metadata = [item for item in content["links"] if item["rel"] == "describedby"]
    path = _path(content["id"])
    body = paragraph(content["description"])
    maps = [item for item in content["links"] if item["rel"] == f"{REL}/map"]
    if maps:
        body += _preview(dataset, content, path)
    wanted = (f"{REL}/tilesets-map", f"{REL}/tilesets-vector", f"{REL}/styles", "preview")
    resources = [
        (local(dataset, item["href"]), item["title"])
        for item in content["links"]
        if item["rel"] in wanted
    ]
    resources += [(f"{local(dataset, item['href'])}", item["title"]) for item in maps]
    resources += [
        (item["href"], item["title"])
        for item in metadata
        if not item["href"].startswith(f"{dataset.uri}/")
    ]
    body += heading("Resources") + links(resources)
    body += heading("Facts") + facts(
        [
            ("Identifier", f"<code>{escape(content['id'])}</code>"),
            ("Data", escape(content["dataType"])),
            ("Keywords", escape(", ".join(content.get("keywords", ())))),
            ("Attribution", escape(content.get("attribution", ""))),
            ("West, south, east, north", escape(_numbers(spatial["bbox"][0]))),
            ("CRS of the data", f"<code>{escape(_short_crs(content['storageCrs']))}</code>"),
            ("Extent in it", escape(_numbers(spatial.get("storageCrsBbox", [[]])[0]))),
            ("Cell sizes", f"{content['minCellSize']:.12g} … {content['maxCellSize']:.12g}"),
            (
                "Scales",
                f"1 : {content['minScaleDenominator']:,.0f} … "
                f"1 : {content['maxScaleDenominator']:,.0f}",
            ),
            ("CRSs of maps", escape(", ".join(map(_short_crs, content["crs"])))),
        ]
    )
    return page(dataset, content["title"], [_COLLECTIONS], body, [("JSON", f"{path}?f=json")])


def styles(dataset: Dataset, content: Content, identifier: str) -> str:
    """Return the page for the styles of a collection."""
    rows = []
    for item in content["styles"]:
        targets = " · ".join(
            anchor(local(dataset, target["href"]), target["title"]) for target in item["links"]
        )
        default = " (default)" if item["id"] == content["default"] else ""
        rows.append(
            [
                escape(item["title"]) + paragraph(item.get("description", ""), "quiet"),
                f"<code>{escape(item['id'])}</code>{default}",
                targets,
            ]
        )
    crumbs = _above(dataset, identifier)
    others = [("JSON", f"{_path(identifier)}/styles?f=json")]
    return page(
        dataset, "Styles", crumbs, table(["Style", "Identifier", "Maps and tiles"], rows), others
    )


def tilesets(dataset: Dataset, content: Content, identifier: str) -> str:
    """Return the page for a list of tilesets."""
    rows = []
    for item in content["tilesets"]:
        limits = item["tileMatrixSetLimits"]
        rows.append(
            [
                anchor(local(dataset, _own(item["links"])), item["tileMatrixSetId"]),
                f"<code>{escape(_short_crs(item['crs']))}</code>",
                escape(f"{limits[0]['tileMatrix']} … {limits[-1]['tileMatrix']}"),
            ]
        )
    body = table(["Tile matrix set", "CRS", "Tile matrices"], rows)
    return page(dataset, "Tilesets", _above(dataset, identifier), body, _json(dataset, content))


def tileset(dataset: Dataset, content: Content, identifier: str) -> str:
    """Return the page for a tileset."""
    rows = [
        [
            escape(item["tileMatrix"]),
            item["minTileRow"],
            item["maxTileRow"],
            item["minTileCol"],
            item["maxTileCol"],
        ]
        for item in content["tileMatrixSetLimits"]
    ]
    definition = next(i for i in content["links"] if i["rel"] == f"{REL}/tiling-scheme")
    templates = "".join(
        f"<li>{escape(item['title'])}: <code>{escape(item['href'])}</code></li>"
        for item in content["links"]
        if item["rel"] == "item"
    )
    body = paragraph(content["description"])
    body += facts(
        [
            ("Tile matrix set", anchor(local(dataset, definition["href"]), definition["title"])),
            ("CRS", f"<code>{escape(content['crs'])}</code>"),
            ("Tables", escape(", ".join(item["id"] for item in content.get("layers", ())))),
        ]
    )
    body += heading("Addresses of tiles") + f'<ul class="links">{templates}</ul>\n'
    names = ["Tile matrix", "First row", "Last row", "First column", "Last column"]
    body += heading("Tiles that exist") + table(names, rows)
    crumbs = _above(dataset, identifier)
    title = f"{content['title']} in {content['tileMatrixSetId']}"
    return page(dataset, title, crumbs, body, _json(dataset, content))


def tile_matrix_sets(dataset: Dataset, content: Content) -> str:
    """Return the page for the list of tile matrix sets."""
    rows = [
        [
            anchor(local(dataset, _own(item["links"])), item["title"]),
            f"<code>{escape(item['id'])}</code>",
            f"<code>{escape(_short_crs(item['crs']))}</code>",
            escape(item.get("uri", "").rpartition("/")[2]),
        ]
        for item in content["tileMatrixSets"]
    ]
    body = table(["Title", "Identifier", "CRS", "Registered as"], rows)
    return page(dataset, _SETS[0], [], body, [("JSON", f"{_SETS[1]}?f=json")])


def tile_matrix_set(dataset: Dataset, content: Content) -> str:
    """Return the page for a tile matrix set."""
    rows = [
        [
            escape(item["id"]),
            item["scaleDenominator"],
            item["cellSize"],
            escape(_numbers(item["pointOfOrigin"])),
            escape(f"{item['tileWidth']} × {item['tileHeight']}"),
            escape(f"{item['matrixWidth']} × {item['matrixHeight']}"),
        ]
        for item in content["tileMatrices"]
    ]
    body = paragraph(content.get("description", ""))
    body += facts(
        [
            ("Identifier", f"<code>{escape(content['id'])}</code>"),
            ("CRS", f"<code>{escape(content['crs'])}</code>"),
            ("Axes", escape(", ".join(content["orderedAxes"]))),
            ("Registered as", escape(content.get("uri", ""))),
        ]
    )
    names = ["Matrix", "Scale denominator", "Cell size", "Origin", "Tile", "Matrix size"]
    body += table(names, rows)
    return page(dataset, content["title"], [_SETS], body, _json(dataset, content))


def enumeration(dataset: Dataset, content: Content, name: str) -> str:
    """Return the page for a list of identifiers."""
    rows = [[f"<code>{escape(item)}</code>"] for item in content["enum"]]
    crumbs = [("API", "/api")]
    others = [("JSON", f"/api/{quote(name)}?f=json")]
    return page(dataset, name, crumbs, table(["Identifier"], rows), others)


def api(dataset: Dataset, content: Content) -> str:
    """Return the page for the operations of the API."""
    parts = [paragraph(text) for text in content["info"]["description"].split("\n\n")]
    for path, item in content["paths"].items():
        operation = item["get"]
        names = [
            _parameter(content, reference)["name"] for reference in operation.get("parameters", ())
        ]
        codes = "".join(f"<code>{escape(name)}</code> " for name in names)
        parts.append(
            f'<section class="operation"><p><code>GET {escape(path)}</code></p>'
            f"<p>{escape(operation['summary'])}</p>"
            + (f'<p class="quiet">Parameters: {codes}</p>' if codes else "")
            + "</section>\n"
        )
    others = [("OpenAPI in JSON", "/api?f=json"), ("OpenAPI in YAML", "/api?f=yaml")]
    return page(dataset, "Operations", [], "".join(parts), others)


def _parameter(content: Content, reference: Mapping[str, str]) -> Mapping[str, Any]:
    found: Mapping[str, Any] = content["components"]["parameters"][
        reference["$ref"].rpartition("/")[2]
    ]
    return found


def _preview(dataset: Dataset, content: Content, path: str) -> str:
    found = dataset.collections[content["id"]]
    natural = found.natural_format(found.layer.default_style)
    if natural is None or natural.name not in ("png", "jpg", "webp"):
        return ""
    source = f"{base_path(dataset.uri)}{path}/map"
    box = found.layer.native_bbox
    side = "width" if box.xmax - box.xmin >= box.ymax - box.ymin else "height"
    return (
        f'<figure><img src="{escape(source)}?{side}={_PREVIEW}" alt="The whole collection">'
        f"<figcaption>The whole extent, in the default style</figcaption></figure>\n"
    )


def _above(dataset: Dataset, identifier: str) -> list[Crumb]:
    title = dataset.collections[identifier].layer.title
    return [_COLLECTIONS, (title, _path(identifier))]


def _json(dataset: Dataset, content: Content) -> list[Crumb]:
    kinds = [("JSON", "self"), ("TileJSON", "alternate")]
    return [
        (text, item["href"][len(dataset.uri) :])
        for text, rel in kinds
        for item in content["links"]
        if item["rel"] == rel and not item["href"].endswith("f=html")
    ]


def _path(identifier: str) -> str:
    return f"/collections/{quote(identifier, safe='')}"


def _own(items: Sequence[Mapping[str, str]]) -> str:
    return next(item["href"] for item in items if item["rel"] == "self")


def _short_crs(uri: str) -> str:
    """Return a short, readable CRS identifier."""
    parts = uri.strip("[]").split("/")
    if len(parts) < 4:
        return parts[-1]
    return (
        "CRS84" if parts[-1] == "CRS84" else f"{'EPSG' if 'EPSG' in parts else 'IGNF'}:{parts[-1]}"
    )


def _numbers(values: Sequence[float]) -> str:
    return ", ".join(f"{value:.12g}" for value in values)


def _shortened(text: str, limit: int = 160) -> str:
    return text if len(text) <= limit else text[:limit].rsplit(" ", 1)[0] + " …"
