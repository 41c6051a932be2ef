"""A WMS 1.3.0 or 1.1.1: its capabilities, and the requests for its maps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from xml.etree.ElementTree import Element

from mastaba.api.catalogue import CRS, BoundingBox, TileMatrix
from mastaba_build.errors import PlanError
from mastaba_build.harvest.address import Address
from mastaba_build.harvest.client import Client
from mastaba_build.harvest.documents import (
    LARGEST,
    box_in,
    child,
    code_of,
    is_same_crs,
    listed,
    media_type_of,
    numbers_of,
    parsed,
    text_of,
    texts_of,
)
from mastaba_build.harvest.grids import Span
from mastaba_server.web.parameters import whole_number

_NEWEST = "1.3.0"
_UNLIMITED = 1 << 30
_DEEPEST = 30
"""Layers in layers."""


@dataclass(frozen=True, slots=True)
class MapService:
    """Maps of some layers in one CRS.

    Attributes:
        version: 1.3.0, or an older one.
        crs: code, as the service names it.
        northing_first: whether boxes are written with y before x.
        media_type: of maps, as the service names it.
        largest: width and height in pixels of a map.
        box: extent of the layers, x before y.
        has_alpha: whether maps are requested with transparency.
        background: colour where nothing is drawn, as ``0xFFFFFF``.
    """

    address: Address
    version: str
    layers: str
    styles: str
    crs: str
    northing_first: bool
    media_type: str
    largest: tuple[int, int]
    box: BoundingBox
    has_alpha: bool = False
    background: str = "0xFFFFFF"

    def url_of(self, matrix: TileMatrix, column: Span, row: Span) -> str:
        """Return the request for a map whose upper left corner is that of a tile."""
        cell = matrix.cell_size
        left = matrix.origin_x + column.number * matrix.tile_width * cell
        upper = matrix.origin_y - row.number * matrix.tile_height * cell
        box = [left, upper - row.size * cell, left + column.size * cell, upper]
        if self.northing_first:
            box = [box[1], box[0], box[3], box[2]]
        return self.address.with_query(
            {
                "SERVICE": "WMS",
                "VERSION": self.version,
                "REQUEST": "GetMap",
                "LAYERS": self.layers,
                "STYLES": self.styles,
                _crs_key(self.version): self.crs,
                "BBOX": ",".join(map(repr, box)),
                "WIDTH": column.size,
                "HEIGHT": row.size,
                "FORMAT": self.media_type,
                "TRANSPARENT": "TRUE" if self.has_alpha else "FALSE",
                "BGCOLOR": self.background,
            }
        )


def _crs_key(version: str) -> str:
    return "CRS" if version >= _NEWEST else "SRS"


def map_service(address: Address, client: Client, crs: CRS) -> MapService:
    """Return the service in the capabilities at an address, for maps in the CRS of a set.

    Raises:
        PlanError: it does not offer the layers, the CRS or the format.
        BuildError: it does not answer.
    """
    query = {
        "SERVICE": "WMS",
        "REQUEST": "GetCapabilities",
        "VERSION": address.version or _NEWEST,
    }
    root = client.get(address.with_query(query), LARGEST, parsed)
    capability = child(root, "Capability")
    if root is None or capability is None:
        raise PlanError(f"{address.host}: its answer to GetCapabilities is not that of a WMS")
    version = root.get("version", _NEWEST)
    lineages = dict(_named(capability.find("Layer")))
    names = [one for one in address.options.get("layers", "").split(",") if one]
    if not names:
        raise PlanError(
            f"{address.host}: state layers after the URL, as #layers=NAME; it has "
            f"{listed(lineages)}"
        )
    for name in names:
        if name not in lineages:
            raise PlanError(f"{address.host}: has no layer {name!r}; it has {listed(lineages)}")
    most = _number(root, "LayerLimit")
    if len(names) > most:
        raise PlanError(f"{address.host}: draws at most {most} layers in a map; harvest fewer")
    chosen = [lineages[name] for name in names]
    operation = child(capability, "Request", "GetMap")
    code = _crs_of(address, version, chosen, crs)
    boxes = [_box(lineage, version, code, crs) for lineage in chosen]
    return MapService(
        address,
        version,
        ",".join(names),
        _styles(address, chosen),
        code,
        version >= _NEWEST and CRS.from_code(code_of(code)).northing_first,
        media_type_of(address, [] if operation is None else texts_of(operation, "Format")),
        (_number(root, "MaxWidth"), _number(root, "MaxHeight")),
        BoundingBox(
            min(box.xmin for box in boxes),
            min(box.ymin for box in boxes),
            max(box.xmax for box in boxes),
            max(box.ymax for box in boxes),
        ),
    )


def _named(
    layer: Element | None, above: tuple[Element, ...] = ()
) -> Iterator[tuple[str, tuple[Element, ...]]]:
    """Yield the name of each layer, and its elements from the outermost layer to itself."""
    if layer is None or len(above) > _DEEPEST:
        return
    lineage = (*above, layer)
    name = text_of(layer, "Name")
    if name:
        yield name, lineage
    for one in layer.findall("Layer"):
        yield from _named(one, lineage)


def _number(root: Element, name: str) -> int:
    """Return a limit of the service; a very large number without one."""
    text = text_of(root, "Service", name)
    return whole_number(text) or _UNLIMITED


def _crs_of(address: Address, version: str, layers: Sequence[Sequence[Element]], crs: CRS) -> str:
    """Return the name by which the service knows the CRS of a set for all layers."""
    wanted = address.options.get("crs")
    if wanted is not None and not is_same_crs(code_of(wanted), crs.code):
        raise PlanError(
            f"crs={wanted}: is not the CRS of the tile matrix set, {crs.code}; choose a set in it "
            "with --tms, harvest, and build the other pyramid from this one"
        )
    key = _crs_key(version)
    offered = [
        {
            name.upper(): name
            for element in lineage
            for text in texts_of(element, key)
            for name in text.split()
        }
        for lineage in layers
    ]
    # Names in the order of preference: other codes of a CRS may have another order of axes.
    names = [wanted] if wanted else [crs.code, *(one for one in offered[0].values())]
    for name in names:
        is_common = all(name.upper() in one for one in offered)
        if is_common and (wanted or name == crs.code or _is_alias(name, crs.code)):
            return offered[0][name.upper()]
    some = listed(set(offered[0].values()).intersection(*(one.values() for one in offered)))
    raise PlanError(
        f"{address.host}: does not draw these layers in {wanted or crs.code}; choose a set in one "
        f"of {some} with --tms, harvest, and build the other pyramid from this one"
    )


def _is_alias(name: str, code: str) -> bool:
    """Return whether a name is one of the usual other codes of a CRS; no CRS is loaded for it."""
    return {code_of(name), code} <= {"CRS:84", "EPSG:4326"} or code_of(name) == code


def _styles(address: Address, layers: Sequence[Sequence[Element]]) -> str:
    """Return the styles, one for each layer; empty ones are the defaults."""
    styles = address.options.get("styles", "").split(",")
    if styles == [""]:
        styles *= len(layers)
    if len(styles) != len(layers):
        raise PlanError(f"{len(styles)} styles for {len(layers)} layers; state one for each")
    for style, lineage in zip(styles, layers, strict=True):
        known = [text_of(one, "Name") for element in lineage for one in element.findall("Style")]
        if style and style not in known:
            raise PlanError(
                f"layer {text_of(lineage[-1], 'Name')!r} has no style {style!r}; it has "
                f"{listed(known)}"
            )
    return ",".join(styles)


def _box(lineage: Sequence[Element], version: str, code: str, crs: CRS) -> BoundingBox:
    """Return the extent of a layer in the CRS of the set, x before y.

    A layer without a box has that of the layer above it.
    """
    key = _crs_key(version)
    swapped = version >= _NEWEST and CRS.from_code(code_of(code)).northing_first
    for layer in reversed(lineage):
        for element in layer.findall("BoundingBox"):
            if element.get(key, "").upper() == code.upper():
                left, lower, right, upper = (
                    numbers_of(element.get(side, ""), 1)[0]
                    for side in ("minx", "miny", "maxx", "maxy")
                )
                if swapped:
                    left, lower, right, upper = lower, left, upper, right
                if left < right and lower < upper:
                    return BoundingBox(left, lower, right, upper)
        degrees = _degrees(layer)
        found = None if degrees is None else box_in(crs, degrees)
        if found is not None:
            return found
    name = text_of(lineage[-1], "Name")
    raise PlanError(f"layer {name!r} has no extent; state it after #, as bbox=XMIN,YMIN,XMAX,YMAX")


def _degrees(layer: Element) -> BoundingBox | None:
    """Return the extent of a layer in degrees, in the notation of either version."""
    inner = layer.find("EX_GeographicBoundingBox")
    if inner is not None:
        names = ("west", "south", "east", "north")
        kinds = ("Longitude", "Latitude") * 2
        texts = [
            text_of(inner, f"{name}Bound{kind}") for name, kind in zip(names, kinds, strict=True)
        ]
    else:
        old = layer.find("LatLonBoundingBox")
        if old is None:
            return None
        texts = [old.get(side, "") for side in ("minx", "miny", "maxx", "maxy")]
    return BoundingBox(*numbers_of(" ".join(texts), 4))
