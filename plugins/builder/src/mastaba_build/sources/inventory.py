"""What there is: the inventory of the sources of a build."""

from __future__ import annotations

import hashlib
import json
import math
import os
import warnings
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from shlex import quote
from typing import Any

import numpy as np
import pyproj
import rasterio
from rasterio.enums import ColorInterp, MaskFlags
from rasterio.errors import NotGeoreferencedWarning, RasterioError

from mastaba_build.config.access import Access, local_path
from mastaba_build.config.configuration import Configuration, SourceOptions
from mastaba_build.errors import PlanError, SourceError
from mastaba_build.sources.facts import facts_of
from mastaba_build.sources.gdal import restrict
from mastaba_build.sources.identity import identity_of_files
from mastaba_build.sources.listing import ListedFile, listed
from mastaba_build.sources.pyramid import (
    PyramidDataset,
    pyramid_level,
    read_descriptor,
)
from mastaba_build.sources.references import check_source
from mastaba_build.sources.remote import remote_version
from mastaba_build.sources.sets import proj_crs
from mastaba_build.sources.source import Source

_MOST_LISTED = 20
_LARGEST_BLOCK = 1 << 27
"""Bytes that GDAL may have to decode for one pixel."""
_POSTS = frozenset({"DTED", "SRTMHGT"})
"""Formats whose values are those of points."""
_BESIDE = (".aux.xml", ".msk", ".ovr")
_INTEGERS = frozenset({"uint8", "int8", "uint16", "int16", "int32", "uint32"})


def inventory(options: SourceOptions, access: Access, sets: Path | None = None) -> list[Source]:
    """Return the files of one entry of ``sources``, the lowest first.

    Args:
        access: what they may open.
        sets: directory of tile matrix sets, for pyramids.

    Raises:
        PlanError: a file cannot be opened or used, or there is none.
    """
    found = [_opened(one, options, access, sets) for one in listed(options)]
    if options.order == "resolution":
        found.sort(key=lambda source: -source.pixel_area)
    return found


def sources_of(configuration: Configuration) -> list[Source]:
    """Return the files of all entries of ``sources``. Raises as `inventory`."""
    access, sets = configuration.access, configuration.tile_matrix_sets
    return [one for options in configuration.sources for one in inventory(options, access, sets)]


def identity_of(path: str, dataset: Any, remote: str = "") -> str:
    """Return a text that changes with a source, or with a file that it refers to.

    Args:
        dataset: from `open_source`.
        remote: version of its files on HTTP servers. They are asked once, for the plan.

    Raises:
        OSError: the source does not exist any more, or cannot be read.
    """
    if isinstance(dataset, PyramidDataset):
        return dataset.identity()
    # GDAL lists files beside these only once it has needed them.
    files = {_container(name) for name in {path, *dataset.files}}
    local = identity_of_files(files | {file + end for file in files for end in _BESIDE})
    return hashlib.sha256(f"{local} {remote}".encode()).hexdigest() if remote else local


def _container(name: str) -> str:
    """Return the archive that contains a file, or the file itself."""
    path = local_path(name) or name
    while path != name and not os.path.exists(path) and os.path.dirname(path) not in ("", path):
        path = os.path.dirname(path)
    return path


def open_dataset(path: str, access: Access, overview: int | None = None) -> Any:
    """Open a dataset of rasterio.

    Args:
        access: what it may open.
        overview: number of an overview; None for the image itself.

    Raises:
        SourceError: GDAL cannot open it, or it would open what it must not.
    """
    restrict(access)
    check_source(path, access)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NotGeoreferencedWarning)
            dataset = rasterio.open(
                path, **({} if overview is None else {"overview_level": overview})
            )
            try:
                _check_files(dataset, path, access)
            except SourceError:
                dataset.close()
                raise
            return dataset
    except (RasterioError, OSError) as error:
        reason = str(error)
        if "not recognized as being in a supported file format" in reason:
            reason = "its format is unknown, or its GDAL driver needs --allow-driver"
        raise SourceError(f"{path}: cannot be opened: {reason}") from None


def open_source(source: Source, access: Access) -> Any:
    """Open the file of a source.

    Args:
        access: what it may open.

    Raises:
        SourceError: it cannot be opened.
    """
    if source.pyramid is not None:
        return PyramidDataset(source.pyramid, access.plugins)
    return open_dataset(source.path, access, source.overview)


def _check_files(dataset: Any, path: str, access: Access) -> None:
    """Check the files of an open dataset, which GDAL knows: masks, overviews, headers."""
    overviews = dataset.tags(ns="OVERVIEWS").get("OVERVIEW_FILE")
    if overviews is not None:
        name = overviews.removeprefix(":::BASE:::")
        check_source(os.path.join(os.path.dirname(path), name), access, by=path)
    for file in dataset.files:
        access.file_of(file, path)


def _absolute(path: str) -> str:
    """Return the path of a file for workers on other machines, with other working directories."""
    return os.path.abspath(path) if os.path.exists(path) else path


def _opened(
    listed_file: ListedFile, options: SourceOptions, access: Access, sets: Path | None
) -> Source:
    path = _absolute(listed_file.path)
    try:
        if local_path(path) is not None:
            access.file_of(path)
        document = read_descriptor(path, access.plugins)
        if document is not None:
            pyramid = _pyramid(path, document, options, access, sets)
            facts = facts_of(path, options, None, listed_file.facts)
            return replace(pyramid, facts=json.dumps(facts), footprints=options.footprints)
        dataset = open_dataset(path, access)
    except SourceError as error:
        raise PlanError(str(error)) from None
    with dataset:
        if dataset.count == 0:
            raise PlanError(_without_bands(dataset, path))
        transform = tuple(dataset.transform)[:6]
        a, b, _, d, e, _ = transform
        if transform == (1, 0, 0, 0, 1, 0):
            raise PlanError(_not_georeferenced(dataset, path))
        if not all(map(math.isfinite, transform)) or a * e - b * d == 0:
            raise PlanError(f"{path}: its georeferencing is invalid: pixels have no area")
        bands, alpha, palette = _channels(dataset, path, options)
        dtypes = {dataset.dtypes[band - 1] for band in bands}
        if len(dtypes) > 1:
            raise PlanError(f"{path}: bands of different types: {', '.join(sorted(dtypes))}")
        (dtype,) = dtypes
        if dtype not in _INTEGERS | {"float32", "float64"}:
            raise PlanError(f"{path}: samples of type {dtype} are not supported")
        _check_blocks(dataset, path)
        remote = remote_version((path, *dataset.files))
        return Source(
            path=path,
            identity=identity_of(path, dataset, remote),
            crs=_crs(dataset, path, options),
            transform=transform,
            width=dataset.width,
            height=dataset.height,
            dtype=dtype,
            bands=bands,
            alpha=alpha,
            palette=palette,
            has_mask=_has_mask(dataset, bands),
            nodata=_nodata(dataset, path, bands, options),
            nodata_ranges=options.nodata_ranges,
            tolerance=options.tolerance,
            touching_edges=options.touching_edges,
            scale=_scale(path, bands, options),
            overviews=_overviews(dataset, path, bands, access) if options.use_overviews else (),
            registration=_registration(dataset, path, access),
            remote=remote,
            facts=json.dumps(facts_of(path, options, dataset, listed_file.facts)),
            footprints=options.footprints,
        )


def _without_bands(dataset: Any, path: str) -> str:
    """Return why a file without bands cannot be used, and the images in it."""
    names = dataset.subdatasets
    if not names:
        return f"{path}: contains no image"
    listed = "".join(f"\n  {quote(name)}" for name in names[:_MOST_LISTED])
    more = len(names) - _MOST_LISTED
    return (
        f"{path}: contains several images; name one of them:{listed}"
        f"{f'{chr(10)}  and {more} more' if more > 0 else ''}"
    )


def _not_georeferenced(dataset: Any, path: str) -> str:
    """Return why a file has no grid, and how it gets one."""
    first = f"gdalwarp -r cubic {quote(path)}"
    if dataset.gcps[0]:
        assigned = "" if dataset.gcps[1] else " -s_srs EPSG:4326"
        return (
            f"{path}: is placed by ground control points, not by a grid; warp it first: "
            f"{first}{assigned} -t_srs EPSG:3857 warped.tif"
        )
    if dataset.rpcs is not None:
        return (
            f"{path}: is placed by rational polynomials (RPC), not by a grid; warp it first, with "
            f"heights of the ground: {first} -rpc -to RPC_DEM=heights.tif -t_srs EPSG:3857 "
            "warped.tif"
        )
    if "GEOLOCATION" in dataset.tag_namespaces():
        return (
            f"{path}: is placed by arrays of positions, not by a grid; warp it first: "
            f"{first} -geoloc -t_srs EPSG:3857 warped.tif"
        )
    return f"{path}: is not georeferenced; add a world file, or use gdal_translate"


def _pyramid(
    path: str,
    document: dict[str, Any],
    options: SourceOptions,
    access: Access,
    sets: Path | None,
) -> Source:
    found, crs = pyramid_level(path, document, options.level, sets, access.plugins)
    if found.storage == "file":
        for directory in filter(None, (found.images, found.masks)):
            access.file_of(directory, path)
    colours = 3 if found.channels >= 3 else 1
    # Only the finest level may have posts.
    declared = document.get("raster_specifications", {}).get("registration", "area")
    registration = str(declared) if options.level is None else "area"
    nodata = options.nodata
    if nodata is None and found.dtype == "float32":
        nodata = found.nodata
    elif nodata is not None:
        nodata = nodata * (colours // len(nodata))
    try:
        with closing(PyramidDataset(found, access.plugins)) as dataset:
            identity = dataset.identity()
    except (SourceError, OSError) as error:
        raise PlanError(str(error)) from None
    return Source(
        path=path,
        identity=identity,
        crs=str(proj_crs(crs.code).to_wkt()),
        transform=found.transform,
        width=found.width,
        height=found.height,
        dtype=found.dtype,
        bands=tuple(range(1, colours + 1)),
        alpha=found.channels if found.channels in (2, 4) else None,
        palette=False,
        has_mask=True,
        nodata=nodata,
        nodata_ranges=options.nodata_ranges,
        tolerance=options.tolerance,
        touching_edges=options.touching_edges,
        scale=_scale(path, tuple(range(colours)), options),
        pyramid=found,
        registration=registration,
    )


def _registration(dataset: Any, path: str, access: Access) -> str:
    """Return the registration of a file: its tag, or what its format says.

    A VRT without a tag, as gdalbuildvrt makes it, has that of its first sheet.
    """
    tag = dataset.tags().get("AREA_OR_POINT")
    if tag is None and dataset.driver == "VRT":
        sheets = [file for file in dataset.files if file != path and not file.endswith(_BESIDE)]
        if sheets:
            with open_dataset(sheets[0], access) as sheet:
                return _registration(sheet, sheets[0], access)
    return "post" if dataset.driver in _POSTS or tag == "Point" else "area"


def _check_blocks(dataset: Any, path: str) -> None:
    """Refuse a file of which GDAL can only read large parts at once."""
    rows, columns = dataset.block_shapes[0]
    samples = sum(np.dtype(dtype).itemsize for dtype in dataset.dtypes)
    size = min(rows, dataset.height) * min(columns, dataset.width) * samples
    if dataset.compression and size > _LARGEST_BLOCK:
        raise PlanError(
            f"{path}: has blocks of {size >> 20} MiB; write it with tiles: "
            "gdal_translate -co TILED=YES -co COMPRESS=DEFLATE"
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
    if palette:
        try:
            dataset.colormap(colours[0])
        except ValueError:
            raise PlanError(
                f"{path}: band {colours[0]} is a palette without colours; declare it as grey: "
                "gdal_translate -colorinterp gray"
            ) from None
    return tuple(colours), alpha, palette


def _has_mask(dataset: Any, bands: tuple[int, ...]) -> bool:
    flags = dataset.mask_flag_enums[bands[0] - 1]
    return MaskFlags.per_dataset in flags and MaskFlags.alpha not in flags


def _nodata(
    dataset: Any, path: str, bands: tuple[int, ...], options: SourceOptions
) -> tuple[float, ...] | None:
    if options.nodata is not None:
        if len(options.nodata) not in (1, len(bands)):
            raise PlanError(f"{path}: {len(options.nodata)} nodata values for {len(bands)} bands")
        return options.nodata * (len(bands) // len(options.nodata))
    if _has_mask(dataset, bands):
        return None  # as in GDAL, where a mask replaces the nodata value
    values = [dataset.nodatavals[band - 1] for band in bands]
    return None if None in values else tuple(map(float, values))


def _scale(
    path: str, bands: tuple[int, ...], options: SourceOptions
) -> tuple[tuple[float, float], ...] | None:
    if options.scale is None:
        return None
    if len(options.scale) not in (1, len(bands)):
        raise PlanError(f"{path}: {len(options.scale)} scales for {len(bands)} bands")
    return options.scale * (len(bands) // len(options.scale))


def _overviews(dataset: Any, path: str, bands: tuple[int, ...], access: Access) -> tuple[int, ...]:
    """Return how many pixels are on a side of a pixel of each overview; 0 for unusable ones."""
    found = []
    for number, factor in enumerate(dataset.overviews(bands[0])):
        with open_dataset(path, access, number) as overview:
            size = -(-dataset.width // factor), -(-dataset.height // factor)
            found.append(factor if (overview.width, overview.height) == size else 0)
    return tuple(found)


def _crs(dataset: Any, path: str, options: SourceOptions) -> str:
    try:
        if dataset.crs:
            crs = pyproj.CRS.from_wkt(dataset.crs.to_wkt())
        elif options.crs:
            crs = pyproj.CRS.from_user_input(options.crs)
        else:
            raise PlanError(f"{path}: has no CRS; state it with --crs, as in --crs EPSG:2154")
    except pyproj.exceptions.CRSError as error:
        raise PlanError(f"{path}: its CRS is unknown: {error}") from None
    if not (crs.is_geographic or crs.is_projected):
        raise PlanError(
            f"{path}: its CRS {crs.name!r} ({crs.type_name}) has no positions on the ground; "
            "assign another one: gdal_translate -a_srs EPSG:2154"
        )
    return str(crs.to_wkt())
