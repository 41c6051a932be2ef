"""GDAL as a reader of files that others have made: its drivers and its options."""

from __future__ import annotations

import threading

from rasterio import _env

from mastaba_build.config.access import Access
from mastaba_build.errors import PlanError

ALLOWED = frozenset(
    [
        *("AAIGrid", "BMP", "BT", "COG", "CTable2", "DTED", "EHdr", "ENVI", "GIF", "BIGGIF"),
        *("GPKG", "GRASSASCIIGrid", "GRIB", "GS7BG", "GSAG", "GSBG", "GTI", "GTX", "GTiff"),
        *("HDF5", "HDF5Image", "HFA", "ISG", "JP2ECW", "JP2KAK", "JP2OpenJPEG", "JPEG", "JPEGXL"),
        *("LIBERTIFF", "MBTiles", "NTv2", "PCRaster", "PNG", "PNM", "RST", "SAGA", "SRTMHGT"),
        *("Terragen", "USGSDEM", "VRT", "WEBP", "XYZ", "netCDF"),
        # Needed inside GDAL and rasterio, by MBTiles, and for the indexes of tiles.
        *("GeoJSON", "MEM", "Memory", "SQLite"),
    ]
)
"""Drivers of formats whose files name no others, or whose names `references` checks."""
_OVER_NETWORK = frozenset(["HTTP", "WCS", "WMS", "WMTS"])
_ONLY_URL = "CPL_VSIL_CURL_ALLOWED_FILENAME"
"""Option with the only URL that GDAL reads."""
_lock = threading.Lock()


def restrict(access: Access) -> None:
    """Limit what GDAL opens in this thread, and remove all drivers that are not allowed.

    Call it before a dataset is opened. The limits stay while it is read, because a VRT opens its
    files then.

    Raises:
        PlanError: a driver is allowed that GDAL does not have, or others cannot be removed.
    """
    allowed = ALLOWED | set(access.drivers) | (_OVER_NETWORK if access.network else set())
    _env.set_gdal_config("GDAL_VRT_ENABLE_PYTHON", "NO")
    if access.network:
        _env.del_gdal_config(_ONLY_URL)
    else:
        _env.set_gdal_config(_ONLY_URL, "none")
    with _lock:
        if _drivers() <= allowed and _state.get("allowed") == allowed:
            return
        _register()
        others = _drivers() - allowed
        if others:
            _register(",".join(sorted(others)))
        found = _drivers()
        if missing := set(access.drivers) - found:
            raise PlanError(f"--allow-driver: GDAL has no driver {min(missing)!r}")
        if found - allowed:
            listed = ", ".join(sorted(found - allowed))
            raise PlanError(f"the GDAL drivers {listed} cannot be removed; update rasterio")
        _state["allowed"] = allowed


_state: dict[str, frozenset[str] | set[str]] = {}


def _register(skip: str | None = None) -> None:
    """Register all drivers again, except for those that are skipped."""
    _env._have_registered_drivers = False
    if skip is not None:
        _env.set_gdal_config("GDAL_SKIP", skip)
    try:
        _env.GDALEnv().start()
    finally:
        if skip is not None:
            _env.del_gdal_config("GDAL_SKIP")


def _drivers() -> set[str]:
    return set(_env.GDALEnv().drivers())
