"""A WMTS 1.0.0: its capabilities, and the requests for its tiles."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urljoin, urlsplit
from xml.etree.ElementTree import Element

from mastaba.api.catalogue import CRS, BoundingBox, TileLimits, TileMatrix
from mastaba_build.errors import PlanError
from mastaba_build.harvest.address import Address
from mastaba_build.harvest.client import Client
from mastaba_build.harvest.documents import (
    LARGEST,
    child,
    code_of,
    listed,
    media_type_of,
    numbers_of,
    parsed,
    text_of,
    texts_of,
)
from mastaba_build.harvest.grids import Axis, TileAxis, TileGrid
from mastaba_build.sources.sets import proj_crs

_PIXEL = 0.00028
"""Metres; the pixel of scale denominators."""
_NEAR = 0.1
"""Pixels by which the positions of two matrices may differ."""
_QUARTER = 90.0 + 1e-6
"""Degrees that a latitude may have."""
_LARGEST_TILE = 4096
_MOST = 1 << 31
_VARIABLE = re.compile(r"\{([^{}]*)\}")
_NAME = re.compile(r"[A-Za-z0-9.-]+")


@dataclass(frozen=True, slots=True)
class ServiceMatrix:
    """A matrix of a service.

    Attributes:
        matrix: its grid; the identifier is that of the service.
        limits: tiles that the service says to have.
    """

    matrix: TileMatrix
    limits: TileLimits


@dataclass(frozen=True, slots=True)
class TileService:
    """Tiles of one layer in one tile matrix set.

    Attributes:
        template: URL with variables; None for requests with parameters.
        set: identifier of the set.
        code: of its CRS.
        media_type: of tiles, as the service names it.
        matrices: from the coarsest to the finest.
        degrees: extent of the layer in degrees; None if unknown.
        variables: values of the other variables of the template.
    """

    address: Address
    template: str | None
    layer: str
    style: str
    set: str
    code: str
    media_type: str
    matrices: tuple[ServiceMatrix, ...]
    degrees: BoundingBox | None
    variables: Mapping[str, str]

    def url_of(self, matrix: str, column: int, row: int) -> str:
        """Return the request for a tile."""
        if self.template is None:
            return self.address.with_query(
                {
                    "SERVICE": "WMTS",
                    "VERSION": "1.0.0",
                    "REQUEST": "GetTile",
                    "LAYER": self.layer,
                    "STYLE": self.style,
                    "FORMAT": self.media_type,
                    "TILEMATRIXSET": self.set,
                    "TILEMATRIX": matrix,
                    "TILEROW": row,
                    "TILECOL": column,
                }
            )
        values = {
            **self.variables,
            "style": self.style,
            "tilematrixset": self.set,
            "tilematrix": matrix,
            "tilerow": str(row),
            "tilecol": str(column),
        }
        url = _VARIABLE.sub(
            lambda found: quote(values.get(found[1].lower(), ""), safe=""), self.template
        )
        query = urlsplit(self.address.url).query
        return f"{url}{'&' if '?' in url else '?'}{query}" if query else url

    def grid_of(
        self, matrix: TileMatrix, limits: TileLimits, slab: tuple[int, int]
    ) -> tuple[TileGrid, TileLimits] | None:
        """Return the tiles with the pixels of a matrix, and those tiles of the matrix they touch.

        Args:
            limits: tiles of the matrix that are wanted.
            slab: width and height of a slab in tiles.

        Returns:
            None if the service has no such tiles.
        """
        for one in self.matrices:
            found = _grid(one, matrix, limits, slab)
            if found is not None:
                return found
        return None


def _grid(
    service: ServiceMatrix, matrix: TileMatrix, limits: TileLimits, slab: tuple[int, int]
) -> tuple[TileGrid, TileLimits] | None:
    own = service.matrix
    far = max((limits.max_col + 1) * matrix.tile_width, (limits.max_row + 1) * matrix.tile_height)
    if abs(own.cell_size - matrix.cell_size) * far > _NEAR * matrix.cell_size:
        return None
    shifts = (
        (matrix.origin_x - own.origin_x) / matrix.cell_size,
        (own.origin_y - matrix.origin_y) / matrix.cell_size,
    )
    if any(abs(shift - round(shift)) > _NEAR for shift in shifts):
        return None
    right, down = map(round, shifts)
    known = service.limits
    touched = TileLimits(
        (known.min_row * own.tile_height - down) // matrix.tile_height,
        ((known.max_row + 1) * own.tile_height - down - 1) // matrix.tile_height,
        (known.min_col * own.tile_width - right) // matrix.tile_width,
        ((known.max_col + 1) * own.tile_width - right - 1) // matrix.tile_width,
    ).intersection(limits)
    if touched is None:
        return None
    grid = TileGrid(
        own.id,
        Axis(matrix.tile_width, slab[0], touched.min_col, touched.max_col),
        Axis(matrix.tile_height, slab[1], touched.min_row, touched.max_row),
        TileAxis(own.tile_width, right, known.min_col, known.max_col),
        TileAxis(own.tile_height, down, known.min_row, known.max_row),
    )
    return grid, touched


def tile_service(address: Address, client: Client) -> list[TileService]:
    """Return the layer in the capabilities at an address, once for each of its sets.

    Raises:
        PlanError: it does not offer the layer, the set, the style or the format.
        BuildError: it does not answer.
    """
    url = address.url
    if not urlsplit(url).path.lower().endswith(".xml"):
        url = address.with_query(
            {"SERVICE": "WMTS", "REQUEST": "GetCapabilities", "VERSION": "1.0.0"}
        )
    root = client.get(url, LARGEST, parsed)
    contents = child(root, "Contents")
    if root is None or contents is None:
        raise PlanError(f"{address.host}: its answer to GetCapabilities is not that of a WMTS")
    layers = {text_of(one, "Identifier"): one for one in contents.findall("Layer")}
    name = address.options.get("layer", "")
    if name not in layers:
        what = f"has no layer {name!r}" if name else "state a layer after the URL, as #layer=NAME"
        raise PlanError(f"{address.host}: {what}; it has {listed(layers)}")
    layer = layers[name]
    sets = {text_of(one, "Identifier"): one for one in contents.findall("TileMatrixSet")}
    links = {text_of(one, "TileMatrixSet"): one for one in layer.findall("TileMatrixSetLink")}
    wanted = address.options.get("set")
    if wanted is not None and wanted not in links:
        raise PlanError(f"layer {name!r} has no set {wanted!r}; it has {listed(links)}")
    chosen = [wanted] if wanted else [one for one in links if one in sets]
    media_type = media_type_of(address, texts_of(layer, "Format"))
    template, variables = _template(address, root, layer, media_type)
    degrees = _degrees(layer)
    found = []
    for one in chosen:
        if one not in sets:
            raise PlanError(f"{address.host}: does not define the set {one!r}")
        code = code_of(text_of(sets[one], "SupportedCRS"))
        try:
            crs = CRS.from_code(code)
        except ValueError as error:
            if wanted:
                raise PlanError(f"set {one!r}: {error}") from None
            continue
        matrices = _matrices(sets[one], links[one], crs)
        found.append(
            TileService(
                address,
                template,
                name,
                _style(address, name, layer),
                one,
                code,
                media_type,
                matrices,
                degrees,
                variables,
            )
        )
    if not found:
        raise PlanError(f"layer {name!r} has no set in a CRS that PROJ knows")
    return found


def _style(address: Address, name: str, layer: Element) -> str:
    styles = {text_of(one, "Identifier"): one for one in layer.findall("Style")}
    wanted = address.options.get("style")
    if wanted:
        if wanted not in styles:
            raise PlanError(f"layer {name!r} has no style {wanted!r}; it has {listed(styles)}")
        return wanted
    default = [key for key, one in styles.items() if one.get("isDefault", "").lower() == "true"]
    return next(iter([*default, *styles]), "default")


def _template(
    address: Address, root: Element, layer: Element, media_type: str
) -> tuple[str | None, dict[str, str]]:
    """Return the template of tiles, or None for requests with parameters; and its variables."""
    variables = {
        text_of(one, "Identifier").lower(): text_of(one, "Default")
        for one in layer.findall("Dimension")
    }
    templates = [
        one.get("template", "")
        for one in layer.findall("ResourceURL")
        if one.get("resourceType") == "tile" and one.get("format") == media_type
    ]
    is_document = urlsplit(address.url).path.lower().endswith(".xml")
    if not templates or (not is_document and _takes_parameters(root)):
        if is_document:
            raise PlanError(f"{address.host}: has no template for tiles in {media_type}")
        return None, {}
    template = urljoin(address.url, templates[0])
    new, old = urlsplit(template), urlsplit(address.url)
    if (new.hostname, new.port) != (old.hostname, old.port) or new.scheme not in (
        "https",
        old.scheme,
    ):
        raise PlanError(
            f"{address.host}: its tiles are on {new.netloc}, another host; name this one"
        )
    return template, variables


def _takes_parameters(root: Element) -> bool:
    """Return whether a service does not say that tiles have no requests with parameters."""
    for operation in root.iter("Operation"):
        if operation.get("name") == "GetTile":
            values = [one.text for one in operation.iter("Value")]
            return "KVP" in values or "RESTful" not in values
    return root.find("OperationsMetadata") is None


def _degrees(layer: Element) -> BoundingBox | None:
    box = layer.find("WGS84BoundingBox")
    if box is None:
        return None
    left, lower = numbers_of(text_of(box, "LowerCorner"), 2)
    right, upper = numbers_of(text_of(box, "UpperCorner"), 2)
    return BoundingBox(left, lower, right, upper)


def _matrices(set_: Element, link: Element, crs: CRS) -> tuple[ServiceMatrix, ...]:
    limits = {
        text_of(one, "TileMatrix"): one
        for one in link.findall("TileMatrixSetLimits/TileMatrixLimits")
    }
    found = []
    for element in set_.findall("TileMatrix"):
        matrix = _matrix(element, crs)
        known: TileLimits | None = matrix.all_tiles
        if matrix.id in limits:
            values = [
                _whole(limits[matrix.id], one)
                for one in ("MinTileRow", "MaxTileRow", "MinTileCol", "MaxTileCol")
            ]
            known = TileLimits(*values).intersection(matrix.all_tiles)
        elif limits:
            known = None  # a level without limits has no tiles if others have some
        if known is not None:
            found.append(ServiceMatrix(matrix, known))
    return tuple(sorted(found, key=lambda one: -one.matrix.cell_size))


def _matrix(element: Element, crs: CRS) -> TileMatrix:
    (scale,) = numbers_of(text_of(element, "ScaleDenominator"), 1)
    x, y = numbers_of(text_of(element, "TopLeftCorner"), 2)
    if crs.northing_first:
        x, y = y, x
    if crs.is_geographic and abs(y) > _QUARTER and abs(x) <= _QUARTER:
        x, y = y, x  # written in the other order, which happens
    metres = _metres_per_unit(crs)
    sizes = [
        _whole(element, one) for one in ("TileWidth", "TileHeight", "MatrixWidth", "MatrixHeight")
    ]
    if scale <= 0 or min(sizes) < 1 or max(sizes[:2]) > _LARGEST_TILE:
        raise PlanError(f"matrix {text_of(element, 'Identifier')!r} has an invalid size or scale")
    return TileMatrix(text_of(element, "Identifier"), scale * _PIXEL / metres, x, y, *sizes)


def _metres_per_unit(crs: CRS) -> float:
    """Return the metres of a unit, as scale denominators are defined (OGC 07-057r7, 6.1)."""
    if crs.is_geographic:
        return crs.metres_per_unit
    return float(proj_crs(crs.code).axis_info[0].unit_conversion_factor)


def _whole(element: Element, name: str) -> int:
    text = text_of(element, name)
    # Matrices of the finest levels have more columns than numbers of parameters may have digits.
    number = int(text) if text.isascii() and text.isdigit() and len(text) <= 10 else _MOST + 1
    if number > _MOST:
        raise PlanError(f"the capabilities contain {text[:40]!r} as {name}")
    return number


def set_of(service: TileService) -> tuple[str, dict[str, Any]]:
    """Return the name and the document of a tile matrix set with the matrices of a service."""
    name = "".join(one if one.isalnum() and one.isascii() else "-" for one in service.set)
    keeps = all(_NAME.fullmatch(one.matrix.id) for one in service.matrices)
    metres = _metres_per_unit(CRS.from_code(service.code))
    matrices = []
    for number, one in enumerate(service.matrices):
        matrix = one.matrix
        matrices.append(
            {
                "id": matrix.id if keeps else str(number),
                "cellSize": matrix.cell_size,
                "scaleDenominator": matrix.cell_size * metres / _PIXEL,
                "pointOfOrigin": [matrix.origin_x, matrix.origin_y],
                "tileWidth": matrix.tile_width,
                "tileHeight": matrix.tile_height,
                "matrixWidth": matrix.matrix_width,
                "matrixHeight": matrix.matrix_height,
            }
        )
    return name, {"id": name, "crs": service.code, "tileMatrices": matrices}
