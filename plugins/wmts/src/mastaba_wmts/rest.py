"""The RESTful binding (OGC 07-057r7 clause 10): paths below the root path of the service."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote

from mastaba_ows.featureinfo import INFO_EXTENSIONS
from mastaba_wmts.params import VERSION, FeatureInfoRequest, TileRequest

CAPABILITIES_PATH: Final = f"/{VERSION}/WMTSCapabilities.xml"
_TILE: Final = 8
_FEATURE_INFO: Final = 10

# Characters that the schema of ResourceURL/@template allows unescaped, except path delimiters.
_LITERAL: Final = "-_.!~*'();:@+$,="


def tile_request(path: str) -> TileRequest | None:
    """Return the tile named by a path, still unchecked, or None for a path of another form.

    The form is ``/1.0.0/{Layer}/{style}/{TileMatrixSet}/{TileMatrix}/{TileRow}/{TileCol}.{ext}``.
    """
    parts = path.split("/")
    if len(parts) != _TILE or parts[1] != VERSION or "" in parts[2:]:
        return None
    _, _, layer, style, tile_matrix_set, tile_matrix, tile_row, last = parts
    tile_col, dot, extension = last.partition(".")
    if not dot or not tile_col:
        return None
    return TileRequest(
        layer, style, None, tile_matrix_set, tile_matrix, tile_row, tile_col, extension
    )


def matrix_request(path: str) -> TileRequest | None:
    """Return the tile matrix named by the path of a tile without the last two segments, or None."""
    tile = tile_request(f"{path}/0/0.")
    return tile and tile._replace(tile_row=None, tile_col=None, extension=None)


def feature_info_request(path: str) -> FeatureInfoRequest | None:
    """Return the pixel named by a path, still unchecked, or None for a path of another form.

    The form is that of a tile without extension, followed by ``/{J}/{I}.{ext}``.
    """
    parts = path.split("/")
    if len(parts) != _FEATURE_INFO or parts[1] != VERSION or "" in parts[2:]:
        return None
    _, _, layer, style, tile_matrix_set, tile_matrix, tile_row, tile_col, j, last = parts
    i, dot, extension = last.partition(".")
    if not dot or not i:
        return None
    return FeatureInfoRequest(
        TileRequest(layer, style, None, tile_matrix_set, tile_matrix, tile_row, tile_col),
        INFO_EXTENSIONS.get(extension, extension),
        i,
        j,
        with_format=False,
    )


def resources_uri(endpoint_uri: str) -> str:
    """Return the address below which the layers are, for `tile_template`."""
    return f"{quote(endpoint_uri, safe=_LITERAL + '/?#%')}/{VERSION}"


def tile_template(resources_uri: str, layer: str) -> str:
    """Return the template of the paths of a layer's tiles, without the extension."""
    return (
        f"{resources_uri}/{quote(layer, safe=_LITERAL)}"
        "/{style}/{TileMatrixSet}/{TileMatrix}/{TileRow}/{TileCol}"
    )
