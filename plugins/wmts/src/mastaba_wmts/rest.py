"""The RESTful binding (OGC 07-057r7 clause 10): paths below the root path of the service."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final
from urllib.parse import quote

from mastaba_ows.dimensions import Dimension
from mastaba_ows.featureinfo import INFO_EXTENSIONS
from mastaba_wmts.params import VERSION, FeatureInfoRequest, TileRequest

CAPABILITIES_PATH: Final = f"/{VERSION}/WMTSCapabilities.xml"
_TILE: Final = 8
_FEATURE_INFO: Final = 10
_VALUES: Final = 4
"""Position of the first value in a path."""

# Characters that the schema of ResourceURL/@template allows unescaped, except path delimiters.
_LITERAL: Final = "-_.!~*'();:@+$,="

DimensionsOf = Callable[[str], Sequence[Dimension]]
"""Returns the dimensions of a layer with values in paths; none for an unknown name."""


def tile_request(path: str, dimensions_of: DimensionsOf) -> TileRequest | None:
    """Return the tile named by a path, still unchecked, or None for a path of another form.

    The form is ``/1.0.0/{Layer}/{style}/{TileMatrixSet}/{TileMatrix}/{TileRow}/{TileCol}.{ext}``.
    The values of all dimensions of the layer may follow the style.
    """
    found = _split(path, _TILE, dimensions_of)
    if found is None:
        return None
    values, (_, _, layer, style, tile_matrix_set, tile_matrix, tile_row, last) = found
    tile_col, dot, extension = last.partition(".")
    if not dot or not tile_col:
        return None
    return TileRequest(
        *(layer, style, None, tile_matrix_set, tile_matrix, tile_row, tile_col, extension, values)
    )


def matrix_request(path: str, dimensions_of: DimensionsOf) -> TileRequest | None:
    """Return the tile matrix named by the path of a tile without the last two segments, or None."""
    tile = tile_request(f"{path}/0/0.", dimensions_of)
    return tile and tile._replace(tile_row=None, tile_col=None, extension=None)


def feature_info_request(path: str, dimensions_of: DimensionsOf) -> FeatureInfoRequest | None:
    """Return the pixel named by a path, still unchecked, or None for a path of another form.

    The form is that of a tile without extension, followed by ``/{J}/{I}.{ext}``. Of a layer with
    two dimensions, a path without values would have the form of a tile, and is read as one.
    """
    found = _split(path, _FEATURE_INFO, dimensions_of)
    if found is None:
        return None
    values, (_, _, layer, style, tile_matrix_set, tile_matrix, tile_row, tile_col, j, last) = found
    i, dot, extension = last.partition(".")
    if not dot or not i:
        return None
    return FeatureInfoRequest(
        TileRequest(
            *(layer, style, None, tile_matrix_set, tile_matrix, tile_row, tile_col), values=values
        ),
        INFO_EXTENSIONS.get(extension, extension),
        i,
        j,
        with_format=False,
    )


def _split(
    path: str, count: int, dimensions_of: DimensionsOf
) -> tuple[Mapping[str, str], list[str]] | None:
    """Return the values in a path, and its other segments if they are as many as they should be."""
    parts = path.split("/")
    if len(parts) < count or parts[1] != VERSION or "" in parts[2:]:
        return None
    if len(parts) == count:
        return {}, parts
    names = [dimension.name for dimension in dimensions_of(parts[2])]
    if len(parts) != count + len(names):
        return None
    end = _VALUES + len(names)
    values = dict(zip(names, parts[_VALUES:end], strict=True))
    return values, [*parts[:_VALUES], *parts[end:]]


def resources_uri(endpoint_uri: str) -> str:
    """Return the address below which the layers are, for `tile_template`."""
    return f"{quote(endpoint_uri, safe=_LITERAL + '/?#%')}/{VERSION}"


def tile_template(
    resources_uri: str,
    layer: str,
    dimensions: Iterable[Dimension] = (),
    style: str | None = None,
) -> str:
    """Return the template of the paths of a layer's tiles, without the extension.

    Args:
        dimensions: of the layer, with values in paths. Clients replace their identifiers only in
            the letter case of the capabilities.
        style: instead of the placeholder.
    """
    shown = "{style}" if style is None else quote(style, safe=_LITERAL + "{}")
    values = "".join(f"/{{{dimension.identifier}}}" for dimension in dimensions)
    return (
        f"{resources_uri}/{quote(layer, safe=_LITERAL)}"
        f"/{shown}{values}/{{TileMatrixSet}}/{{TileMatrix}}/{{TileRow}}/{{TileCol}}"
    )
