"""Versions of the libraries that the bytes of a pyramid depend on."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Iterable

import pyproj
import rasterio

from mastaba_render.api.resampling import kernel_library
from mastaba_writer.deflate import ENCODERS, encoder_version

VECTOR = ("mastaba-build",)
RASTER = ("mastaba-build", "kernels", "numpy", "gdal", "proj", "pillow")


def installed(names: Iterable[str]) -> dict[str, str]:
    """Return what is installed here, by name: names of `RASTER`, of encoders, or of packages.

    The version of a missing package is empty.
    """
    return {name: _version(name) for name in names}


def _version(name: str) -> str:
    if name == "kernels":
        return kernel_library()
    if name == "gdal":
        return str(rasterio.__gdal_version__)
    if name == "proj":
        return pyproj.proj_version_str
    try:
        return encoder_version(name) if name in ENCODERS else importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""
