"""What there is: the inventory of the sources of a build."""

from __future__ import annotations

import glob
import hashlib
import math
import os
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyproj
import rasterio
from rasterio.enums import ColorInterp, MaskFlags
from rasterio.errors import NotGeoreferencedWarning, RasterioError

from mastaba_build.configuration import SourceOptions
from mastaba_build.errors import PlanError, SourceError

_EXTENSIONS = frozenset(
    [
        ".asc",
        ".bil",
        ".dt0",
        ".dt1",
        ".dt2",
        ".gtx",
        ".hgt",
        ".img",
        ".jp2",
        ".jpeg",
        ".jpg",
        ".nc",
        ".png",
        ".tif",
        ".tiff",
        ".vrt",
        ".webp",
    ]
)
_INTEGERS = frozenset({"uint8", "int8", "uint16", "int16", "int32", "uint32"})


@dataclass(frozen=True, slots=True)
class Source:
    """One raster file.

    Attributes:
        path: as GDAL opens it.
        identity: changes when the file, or a file that it refers to, changes.
        crs: WKT.
        transform: a, b, c, d, e, f: x = a * column + b * row + c, y = d * column + e * row + f.
        width, height: pixels.
        dtype: sample type.
        bands: bands of the colours, counted from 1.
        alpha: band of alpha, or None.
        palette: whether the one band is an index of colours.
        has_mask: whether the file contains a mask.
        nodata: value of each band in pixels without data; None without any.
        tolerance, scale: as in `SourceOptions`.
    """

    path: str
    identity: str
    crs: str
    transform: tuple[float, float, float, float, float, float]
    width: int
    height: int
    dtype: str
    bands: tuple[int, ...]
    alpha: int | None
    palette: bool
    has_mask: bool
    nodata: tuple[float, ...] | None
    tolerance: float
    scale: tuple[float, float] | None

    @property
    def pixel_area(self) -> float:
        """Area of a pixel in units of the CRS."""
        a, b, _, d, e, _ = self.transform
        return abs(a * e - b * d)

    @property
    def colours(self) -> int:
        """Number of colour channels: 1 or 3."""
        return 3 if self.palette or len(self.bands) >= 3 else 1


def inventory(options: SourceOptions) -> list[Source]:
    """Return the files of one entry of ``sources``, the lowest first.

    Raises:
        PlanError: a file cannot be opened or used, or there is none.
    """
    # Absolute, because workers on other machines have other working directories.
    paths = [
        os.path.abspath(path) if os.path.exists(path) else path for path in _paths(options.path)
    ]
    if not paths:
        raise PlanError(f"{options.path}: no raster file; name a file, a folder or a glob")
    if options.order != "given":
        paths.sort(key=os.fsencode)
    found = [_opened(path, options) for path in paths]
    if options.order == "resolution":
        found.sort(key=lambda source: -source.pixel_area)
    return found


def identity_of(path: str, files: list[str]) -> str:
    """Return a text that changes with the size or the time of a file or of one it refers to."""
    known = []
    for file in sorted({path, *files}):
        try:
            status = os.stat(file)
        except OSError:
            continue  # not a local file
        known.append((file, status.st_size, status.st_mtime_ns))
    return hashlib.sha256(repr(known).encode()).hexdigest()


def _paths(path: str) -> Iterator[str]:
    if os.path.isdir(path):
        for folder, _, names in os.walk(path):
            for name in names:
                if os.path.splitext(name)[1].lower() in _EXTENSIONS:
                    yield os.path.join(folder, name)
    elif path.lower().endswith((".txt", ".list")) and os.path.isfile(path):
        with open(path, encoding="utf-8") as lines:
            yield from (line.strip() for line in lines if line.strip())
    elif not os.path.exists(path) and glob.has_magic(path):
        yield from (name for name in glob.glob(path, recursive=True) if os.path.isfile(name))
    else:
        yield path


def open_dataset(path: str) -> Any:
    """Open a dataset of rasterio.

    Raises:
        SourceError: GDAL cannot open it.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NotGeoreferencedWarning)
            return rasterio.open(path)
    except (RasterioError, OSError) as error:
        raise SourceError(f"{path}: cannot be opened: {error}") from None


def _opened(path: str, options: SourceOptions) -> Source:
    try:
        dataset = open_dataset(path)
    except SourceError as error:
        raise PlanError(str(error)) from None
    with dataset:
        transform = tuple(dataset.transform)[:6]
        a, b, _, d, e, _ = transform
        if transform == (1, 0, 0, 0, 1, 0):
            raise PlanError(
                f"{path}: is not georeferenced; add a world file, or use gdal_translate"
            )
        if not all(map(math.isfinite, transform)) or a * e - b * d == 0:
            raise PlanError(f"{path}: its georeferencing is invalid: pixels have no area")
        bands, alpha, palette = _channels(dataset, path, options)
        dtypes = {dataset.dtypes[band - 1] for band in bands}
        if len(dtypes) > 1:
            raise PlanError(f"{path}: bands of different types: {', '.join(sorted(dtypes))}")
        (dtype,) = dtypes
        if dtype not in _INTEGERS | {"float32", "float64"}:
            raise PlanError(f"{path}: samples of type {dtype} are not supported")
        flags = dataset.mask_flag_enums[bands[0] - 1]
        return Source(
            path=path,
            identity=identity_of(path, dataset.files),
            crs=_crs(dataset, path, options),
            transform=transform,
            width=dataset.width,
            height=dataset.height,
            dtype=dtype,
            bands=bands,
            alpha=alpha,
            palette=palette,
            has_mask=MaskFlags.per_dataset in flags and MaskFlags.alpha not in flags,
            nodata=_nodata(dataset, path, bands, options),
            tolerance=options.tolerance,
            scale=options.scale,
        )


def _channels(
    dataset: Any, path: str, options: SourceOptions
) -> tuple[tuple[int, ...], int | None, bool]:
    meanings = dataset.colorinterp
    alphas = [band for band, one in enumerate(meanings, 1) if one == ColorInterp.alpha]
    colours = [band for band in range(1, dataset.count + 1) if band not in alphas]
    alpha = alphas[0] if alphas else None
    if options.bands is not None:
        chosen = [band for band in options.bands if band not in alphas]
        if max(options.bands) > dataset.count:
            raise PlanError(
                f"{path}: has {dataset.count} bands, but band {max(options.bands)} is wanted"
            )
        if len(chosen) == 4:
            chosen, alpha = chosen[:3], chosen[3]
        elif len(chosen) == 2:
            chosen, alpha = chosen[:1], chosen[1]
        elif len(chosen) == len(options.bands):
            alpha = None  # the alpha band is not among the wanted ones
        colours = chosen
    else:
        colours = colours[:3] if len(colours) >= 3 else colours[:1]
    if not colours:
        raise PlanError(f"{path}: has no colour band")
    palette = len(colours) == 1 and meanings[colours[0] - 1] == ColorInterp.palette
    return tuple(colours), alpha, palette


def _nodata(
    dataset: Any, path: str, bands: tuple[int, ...], options: SourceOptions
) -> tuple[float, ...] | None:
    if options.nodata is not None:
        if len(options.nodata) not in (1, len(bands)):
            raise PlanError(f"{path}: {len(options.nodata)} nodata values for {len(bands)} bands")
        return options.nodata * (len(bands) // len(options.nodata))
    values = [dataset.nodatavals[band - 1] for band in bands]
    return None if None in values else tuple(map(float, values))


def _crs(dataset: Any, path: str, options: SourceOptions) -> str:
    try:
        if dataset.crs:
            return str(pyproj.CRS.from_wkt(dataset.crs.to_wkt()).to_wkt())
        if options.crs:
            return str(pyproj.CRS.from_user_input(options.crs).to_wkt())
    except pyproj.exceptions.CRSError as error:
        raise PlanError(f"{path}: its CRS is unknown: {error}") from None
    raise PlanError(f"{path}: has no CRS; state it with --crs, as in --crs EPSG:2154")
