"""Tilesets: tiles of a collection by tile matrix set (OGC API Tiles, 20-057 clauses 8 to 10)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from mastaba.api.catalogue import bbox_in
from mastaba_ogcapi.crs import in_axis_order
from mastaba_ogcapi.links import address, collection_address, template
from mastaba_ogcapi.tilematrixsets import definition_address, definition_uri
from mastaba_ows.crs import crs_uri
from mastaba_ows.links import JSON, REL, Link, link, self_links
from mastaba_ows.versions import address_name

if TYPE_CHECKING:
    from mastaba.api.catalogue import BoundingBox, Style, TileMatrixSet, TileMatrixSetLink
    from mastaba_ogcapi.dataset import Collection, Dataset

VECTOR_TILES: Final = "application/vnd.mapbox-vector-tile"
TILEJSON: Final = "application/vnd.mapbox.tilejson+json"
TILE: Final = "{tileMatrix}/{tileRow}/{tileCol}"

_GEOMETRY_DIMENSIONS: Final = {
    "POINT": 0,
    "MULTIPOINT": 0,
    "LINESTRING": 1,
    "MULTILINESTRING": 1,
    "POLYGON": 2,
    "MULTIPOLYGON": 2,
}
_PROPERTY_TYPES: Final = (
    ("int", "integer"),
    ("float", "number"),
    ("double", "number"),
    ("real", "number"),
    ("numeric", "number"),
    ("bool", "boolean"),
)


@dataclass(frozen=True)
class Tiles:
    """The tiles of a collection: maps in one style, or vector data.

    Attributes:
        style: from the path; None for paths without a style.
    """

    dataset: Dataset
    collection: Collection
    style: Style | None = None

    @property
    def address(self) -> str:
        """The address of the list of tilesets."""
        return self._address(self.collection.id)

    @property
    def tile_address(self) -> str:
        """The same in templates of tiles, which may name the published version."""
        catalogue = self.dataset.site.catalogue
        return self._address(address_name(catalogue, self.collection.layer))

    def _address(self, name: str) -> str:
        segments = ["tiles"]
        if not self.collection.layer.is_vector:
            segments.insert(0, "map")
        if self.style is not None:
            segments[:0] = ["styles", self.style.identifier]
        return collection_address(self.dataset.uri, name, *segments)

    @property
    def data_type(self) -> str:
        return "vector" if self.collection.layer.is_vector else "map"

    @property
    def title(self) -> str:
        layer = self.collection.layer
        return f"{layer.title}: {self.style.title}" if self.style else layer.title


def tilesets_document(tiles: Tiles) -> dict[str, Any]:
    """Return the list of tilesets, the one with the stored tiles first."""
    return {
        "links": self_links(tiles.address, f"Tilesets of {tiles.title}"),
        "tilesets": [_item(tiles, offered) for offered in tiles.collection.sets],
    }


def tileset_document(tiles: Tiles, offered: TileMatrixSetLink) -> dict[str, Any]:
    """Return the metadata of one tileset (17-083r4 clause 9)."""
    layer = tiles.collection.layer
    crs = offered.tile_matrix_set.crs
    corners = in_axis_order(_bbox(tiles.collection, offered), crs)
    content: dict[str, Any] = {
        **_common(tiles, offered),
        "description": layer.abstract,
        "boundingBox": {
            "lowerLeft": corners[:2],
            "upperRight": corners[2:],
            "crs": crs_uri(crs.code),
        },
    }
    if layer.attribution:
        content["attribution"] = layer.attribution.title
    # A list of layers must not be empty; descriptors may have none.
    if layers := _vector_layers(tiles.collection):
        content["layers"] = layers
    if tiles.style is not None:
        content["style"] = {"id": tiles.style.identifier, "title": tiles.style.title}
    return content | {"links": _links(tiles, offered)}


def tileset_address(tiles: Tiles, tile_matrix_set: TileMatrixSet) -> str:
    """Return the address of a tileset's metadata."""
    return address(tiles.address, tile_matrix_set.id)


def item_links(tiles: Tiles, offered: TileMatrixSetLink) -> list[Link]:
    """Return tile address templates, the stored format first."""
    href = f"{address(tiles.tile_address, offered.tile_matrix_set.id)}/{TILE}"
    tile_format = tiles.collection.layer.pyramid.format
    natural = tile_format.media_type
    if tile_format.is_vector:
        name = tile_format.short_name
        media_type = VECTOR_TILES if name == "mvt" else natural
        return [template(f"{href}?f={name}", "item", media_type, "Vector tile")]
    links = [template(f"{href}?f={tile_format.short_name}", "item", natural, "Tile")]
    for item in tiles.dataset.tile_formats.all:
        if item.encoder.media_type != natural:
            links.append(
                template(f"{href}?f={item.name}", "item", item.media_type, f"Tile as {item.name}")
            )
    return links


def _dated_links(tiles: Tiles, offered: TileMatrixSetLink) -> list[Link]:
    """Return the address template of the stored tiles at a time, if there are several times."""
    layer = tiles.collection.layer
    if layer.readers is not None or all(one.name != "time" for one in layer.dimensions):
        return []
    first = item_links(tiles, offered)[0]
    href = f"{first['href']}&datetime={{datetime}}"
    return [template(href, "item", first["type"], f"{first['title']} at a time")]


def picture_template(tiles: Tiles, offered: TileMatrixSetLink) -> str:
    """Return the address template of tiles that clients show: vector tiles, or pictures."""
    links: dict[str, str] = {item["type"]: item["href"] for item in item_links(tiles, offered)}
    stored = tiles.collection.layer.pyramid.format
    pictures = [item for item in tiles.dataset.tile_formats.all if item.is_picture]
    if stored.is_picture or stored.is_vector or not pictures:
        return next(iter(links.values()))
    # Formats that can show where there is no data come first.
    return links[max(pictures, key=lambda item: item.encoder.holds_alpha).media_type]


def _common(tiles: Tiles, offered: TileMatrixSetLink) -> dict[str, Any]:
    tile_matrix_set = offered.tile_matrix_set
    return {
        "title": tiles.title,
        "dataType": tiles.data_type,
        "crs": crs_uri(tile_matrix_set.crs.code),
        "tileMatrixSetURI": definition_uri(tiles.dataset, tile_matrix_set),
        "tileMatrixSetId": tile_matrix_set.id,
        "tileMatrixSetLimits": [
            {
                "tileMatrix": name,
                "minTileRow": limits.min_row,
                "maxTileRow": limits.max_row,
                "minTileCol": limits.min_col,
                "maxTileCol": limits.max_col,
            }
            for name, limits in offered.limits.items()
        ],
    }


def _item(tiles: Tiles, offered: TileMatrixSetLink) -> dict[str, Any]:
    tile_matrix_set = offered.tile_matrix_set
    href = tileset_address(tiles, tile_matrix_set)
    definition = definition_address(tiles.dataset, tile_matrix_set.id)
    links = [
        *self_links(href, tiles.title),
        link(definition, f"{REL}/tiling-scheme", JSON, tile_matrix_set.title or tile_matrix_set.id),
        link(f"{href}?f=json", "describedby", JSON, tiles.title),
        *item_links(tiles, offered)[:1],
    ]
    return {**_common(tiles, offered), "links": links}


def _links(tiles: Tiles, offered: TileMatrixSetLink) -> list[Link]:
    tile_matrix_set = offered.tile_matrix_set
    collection = tiles.collection
    href = tileset_address(tiles, tile_matrix_set)
    geodata = collection_address(tiles.dataset.uri, collection.id)
    links = [
        *self_links(href, tiles.title),
        link(
            definition_address(tiles.dataset, tile_matrix_set.id),
            f"{REL}/tiling-scheme",
            JSON,
            tile_matrix_set.title or tile_matrix_set.id,
        ),
        link(f"{geodata}?f=json", f"{REL}/geodata", JSON, collection.layer.title),
        *item_links(tiles, offered),
        *_dated_links(tiles, offered),
    ]
    if has_tilejson(offered):
        links.append(link(f"{href}?f=tilejson", "alternate", TILEJSON, "TileJSON"))
    if tiles.style is None:
        # As in existing servers.
        for style in collection.layer.styles:
            styled = Tiles(tiles.dataset, collection, style)
            links += [
                {**item, "rel": "tiles", "title": style.title}
                for item in item_links(styled, offered)[:1]
            ]
    return links


def has_tilejson(offered: TileMatrixSetLink) -> bool:
    """Return whether all matrices of a set are numbered like TileJSON zooms."""
    return all(name.isascii() and name.isdigit() and len(name) < 3 for name in offered.limits)


def _bbox(collection: Collection, offered: TileMatrixSetLink) -> BoundingBox:
    """Return the bounding box of a collection in the CRS of a set."""
    layer = collection.layer
    if offered.tile_matrix_set is layer.pyramid.tile_matrix_set:
        return layer.native_bbox
    # The set is only offered if the layer can be transformed to its CRS.
    return bbox_in(layer, offered.tile_matrix_set.crs) or layer.geographic_bbox


def _vector_layers(collection: Collection) -> list[dict[str, Any]]:
    levels = collection.layer.pyramid.levels
    # The finest level describes a table best.
    tables = {table.name: table for level in levels.values() for table in level.tables}
    places: dict[str, list[str]] = {}
    for name, level in levels.items():
        for table in level.tables:
            places.setdefault(table.name, []).append(name)
    found = []
    for name, table in tables.items():
        entry: dict[str, Any] = {"id": name, "dataType": "vector"}
        dimension = _GEOMETRY_DIMENSIONS.get(table.geometry.upper())
        if dimension is not None:
            entry["geometryDimension"] = dimension
        properties = {attribute.name: _property(attribute.type) for attribute in table.attributes}
        entry |= {
            "minTileMatrix": places[name][0],
            "maxTileMatrix": places[name][-1],
            "propertiesSchema": {"type": "object", "properties": properties},
        }
        found.append(entry)
    return found


def _property(source_type: str) -> dict[str, str]:
    lowered = source_type.lower()
    found = next((name for part, name in _PROPERTY_TYPES if part in lowered), "string")
    return {"type": found}
