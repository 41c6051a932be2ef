"""Formats and interpolation methods, by the names that clients use."""

from __future__ import annotations

from typing import Final

GEOTIFF: Final = "image/tiff"
"""Media type of coverages."""
COG: Final = "image/tiff;application=geotiff;profile=cloud-optimized"
"""The same, with whole tiles and overviews."""
GEOTIFF_100: Final = "GeoTIFF"
"""Name of the format in version 1.0.0."""

_GEOTIFFS: Final = frozenset(
    (
        *(GEOTIFF, "image/tiff;application=geotiff", "image/geotiff", "application/x-geotiff"),
        *("geotiff", "gtiff", "geotiff_float"),
    )
)
_COGS: Final = frozenset((COG, "image/tiff;profile=cloud-optimized", "cog"))

_INTERPOLATIONS: Final = "http://www.opengis.net/def/interpolation/OGC/1/"
KERNELS: Final = {
    f"{_INTERPOLATIONS}nearest-neighbor": "nn",
    f"{_INTERPOLATIONS}linear": "linear",
    f"{_INTERPOLATIONS}cubic": "bicubic",
}
"""Kernels by the names of interpolation methods in version 2.0.1."""
# Other names of the same methods: those of the first schemas, of GeoServer and of users.
_FORMER: Final = "http://www.opengis.net/def/interpolation/OGC/1.0/"
_KERNELS: Final = {
    **{name.lower(): kernel for name, kernel in KERNELS.items()},
    **{name.replace(_INTERPOLATIONS, _FORMER).lower(): one for name, one in KERNELS.items()},
    **{name.removeprefix(_INTERPOLATIONS): kernel for name, kernel in KERNELS.items()},
    "nearest": "nn",
    "bilinear": "linear",
}
KERNELS_100: Final = {"nearest neighbor": "nn", "bilinear": "linear", "bicubic": "bicubic"}
"""Kernels by the names of interpolation methods in version 1.0.0."""
_KERNELS_100: Final = {**_KERNELS, **KERNELS_100}


def is_geotiff(name: str) -> bool:
    """Return whether a format of any version is GeoTIFF without overviews."""
    return _normalized(name) in _GEOTIFFS


def is_cog(name: str) -> bool:
    """Return whether a format is Cloud Optimized GeoTIFF."""
    return _normalized(name) in _COGS


def kernel_of(name: str) -> str | None:
    """Return the kernel of an interpolation method; None if it is not offered."""
    return _KERNELS.get(name.strip().lower())


def kernel_of_100(name: str) -> str | None:
    """Return the kernel of an interpolation method of version 1.0.0; None if it is not offered."""
    return _KERNELS_100.get(name.strip().lower())


def _normalized(name: str) -> str:
    # A plus sign that the client did not encode is a space, and some write a space.
    return name.strip().lower().replace(" ", "").replace('"', "")[:200]
