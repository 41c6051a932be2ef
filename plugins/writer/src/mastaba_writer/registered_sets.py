"""The tile matrix sets of the OGC's register, by name.

Source of the figures: the register of OGC 17-083r4 (2D Tile Matrix Set and Tile Set Metadata),
annexes D and E. Sets with variable matrix widths are left out: slabs cannot store them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final

from mastaba_writer.tile_matrix_sets import synthetic

if TYPE_CHECKING:
    from mastaba_writer.documents import Document

_SCALE_SETS: Final = "http://www.opengis.net/def/wkss/OGC/1.0/"
_WORLD: Final = 20037508.3427892
"""Half of the equator in Web Mercator, metres."""
_UTM: Final = 20003931.4586255
"""Length of a zone from the equator to the north, metres; half of it is the width."""
_UTM_WEST: Final = -9501965.72931276
_POLAR: Final = (-14440759.350252, 18440759.350252)
"""Upper left corner of the polar squares, metres; the pole is at (2000000, 2000000)."""
_CANADA: Final = (41804550, 44463820)
"""Width and height that all levels cover, metres."""
_INCH: Final = 0.000264583862501058
"""Metres of a pixel by which the Canadian set counts its scales."""
_CANADIAN_SCALES: Final = tuple(
    scale * factor
    for factor in (1e6, 1e3)
    for scale in (145, 85, 50, 30, 17.5, 10, 6, 3.5, 2, 1.2, 0.7, 0.42, 0.25)
)


def _quad(
    identifier: str,
    crs: str,
    origin: tuple[float, float],
    width: float,
    levels: int,
    *,
    shape: tuple[int, int] = (1, 1),
    first: int = 0,
    scale_set: str = "",
    is_geographic: bool = False,
) -> Document:
    """Return a set whose levels halve the cells.

    Args:
        origin: x and y of the upper left corner, CRS units.
        width: of the first level, CRS units.
        shape: columns and rows of tiles of the first level.
        first: id of the first level.
        scale_set: last part of the URI of the well-known scale set.
    """
    document = synthetic(
        identifier,
        crs=crs,
        origin=origin,
        cell_sizes=[width / shape[0] / 256 / 2**level for level in range(levels)],
        matrix_sizes=[(shape[0] << level, shape[1] << level) for level in range(levels)],
        geographic=is_geographic,
        first=first,
    )
    if scale_set:
        document["wellKnownScaleSet"] = _SCALE_SETS + scale_set
    return document


def _canadian() -> Document:
    cell_sizes = [_INCH * scale for scale in _CANADIAN_SCALES]
    width, height = _CANADA
    return synthetic(
        "CanadianNAD83_LCC",
        crs="EPSG:3978",
        origin=(-34655800, 39310000),
        cell_sizes=cell_sizes,
        matrix_sizes=[
            (math.ceil(width / 256 / cell), math.ceil(height / 256 / cell)) for cell in cell_sizes
        ],
    )


def _utm(zone: int) -> Document:
    return _quad(
        f"UTM{zone:02}WGS84Quad",
        f"EPSG:{32600 + zone}",
        (_UTM_WEST, _UTM),
        _UTM,
        24,
        shape=(1, 2),
        first=1,
    )


def _polar(identifier: str, code: int) -> Document:
    return _quad(identifier, f"EPSG:{code}", _POLAR, 2 * (_POLAR[1] - 2000000), 25)


REGISTERED: Mapping[str, Callable[[], Document]] = {
    "WebMercatorQuad": partial(
        _quad,
        "WebMercatorQuad",
        "EPSG:3857",
        (-_WORLD, _WORLD),
        2 * _WORLD,
        25,
        scale_set="GoogleMapsCompatible",
    ),
    "WorldMercatorWGS84Quad": partial(
        _quad,
        "WorldMercatorWGS84Quad",
        "EPSG:3395",
        (-_WORLD, _WORLD),
        2 * _WORLD,
        25,
        scale_set="WorldMercatorWGS84",
    ),
    "WorldCRS84Quad": partial(
        _quad,
        "WorldCRS84Quad",
        "CRS:84",
        (-180, 90),
        360,
        24,
        shape=(2, 1),
        scale_set="GoogleCRS84Quad",
        is_geographic=True,
    ),
    "EuropeanETRS89_LAEAQuad": partial(
        _quad, "EuropeanETRS89_LAEAQuad", "EPSG:3035", (2000000, 5500000), 4500000, 16
    ),
    "CanadianNAD83_LCC": _canadian,
    "UPSArcticWGS84Quad": partial(_polar, "UPSArcticWGS84Quad", 5041),
    "UPSAntarcticWGS84Quad": partial(_polar, "UPSAntarcticWGS84Quad", 5042),
    **{f"UTM{zone:02}WGS84Quad": partial(_utm, zone) for zone in range(1, 61)},
}
"""The sets by name, computed from their definitions."""
