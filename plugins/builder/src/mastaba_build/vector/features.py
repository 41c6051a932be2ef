"""Features of GeoJSON, GeoPackage and other files: tippecanoe cuts them into tiles."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any

import pyproj

from mastaba_build.config.configuration import AUTO, Configuration
from mastaba_build.errors import PlanError
from mastaba_build.sources.identity import Origin, identity_of_files
from mastaba_build.sources.references import check_start
from mastaba_build.vector.formats import GEOJSON, is_features
from mastaba_build.vector.plan import VectorPlan, check_options, plan_of_archive

_CHUNK = 50_000
"""Features that are in memory at a time."""
_CRS = re.compile(rb'"crs"\s*:\s*\{')
_LONGEST = 4096
_EXTRA = "install mastaba-build[features]"


def plan_of_features(configuration: Configuration) -> VectorPlan:
    """Return the plan of a configuration whose sources are features.

    They are cut into an archive in the work directory, unless an interrupted build has left it.

    Raises:
        PlanError: a file cannot be read, or tippecanoe is not installed or fails.
    """
    check_options(configuration)
    program = _program()
    files = [Path(source.path).absolute() for source in configuration.sources]
    for file in files:
        if not file.is_file():
            raise PlanError(f"{file}: does not exist")
        if not is_features(str(file)):
            raise PlanError(f"{file}: is not a file of features; build it separately")
        check_start(file)
    origins = [Origin(str(file), _identity(file)) for file in files]
    version = _run([program, "--version"]).stderr.strip()
    options = _options(configuration)
    origins.append(Origin("tippecanoe", f"{version} {' '.join(options)}"))
    work = configuration.work_directory
    archive = work / "features.mbtiles"
    stamp = work / "features.json"
    wanted = json.dumps([asdict(origin) for origin in origins])
    if not (archive.exists() and stamp.exists() and stamp.read_text("utf-8") == wanted):
        stamp.unlink(missing_ok=True)
        work.mkdir(parents=True, exist_ok=True)
        _cut(program, options, files, archive)
        stamp.write_text(wanted, encoding="utf-8")
    return plan_of_archive(configuration, str(archive.absolute()), tuple(origins))


def _program() -> str:
    """Return the path of tippecanoe: beside this Python, or on the path."""
    beside = Path(sys.executable).with_name("tippecanoe")
    found = str(beside) if beside.exists() else shutil.which("tippecanoe")
    if found is None:
        raise PlanError(f"features are cut by tippecanoe, which is not installed; {_EXTRA}")
    return found


def _options(configuration: Configuration) -> list[str]:
    options = ["--no-tile-compression", "--quiet"]
    if configuration.top != AUTO:
        options.append(f"--minimum-zoom={configuration.top}")
    zoom = "g" if configuration.bottom == AUTO else configuration.bottom
    return [*options, f"--maximum-zoom={zoom}"]


def _cut(program: str, options: list[str], files: list[Path], archive: Path) -> None:
    """Write the archive of features; one run, so that their density has no seams."""
    folder = archive.parent / "features"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    try:
        inputs = [
            f"--named-layer={json.dumps({'file': str(path), 'layer': layer})}"
            for file in files
            for layer, path in _as_geojson(file, folder)
        ]
        archive.unlink(missing_ok=True)
        words = [program, *options, f"--temporary-directory={folder}", "-o", str(archive), *inputs]
        done = _run(words)
        if done.returncode:
            lines = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
            raise PlanError(f"tippecanoe cannot cut the features: {lines[-1]}")
    finally:
        shutil.rmtree(folder)


def _as_geojson(file: Path, folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield files of GeoJSON in WGS 84 with the names of their layers."""
    if file.suffix.lower() in GEOJSON and not _has_other_crs(file):
        yield _name(file.stem), file
        return
    pyogrio = _pyogrio()
    try:
        for layer, kind in pyogrio.list_layers(str(file)):
            if kind is None:
                continue  # a table without geometries
            first = 0
            while True:
                meta, _, geometry, fields = pyogrio.raw.read(
                    str(file), layer=layer, skip_features=first, max_features=_CHUNK
                )
                if meta["crs"] is None:
                    raise PlanError(f"{file}: layer {layer!r} has no CRS")
                digest = hashlib.sha256(f"{file}|{layer}|{first}".encode()).hexdigest()[:16]
                path = folder / f"{digest}.geojsonl"
                # The driver converts to WGS 84, as RFC 7946 requires.
                pyogrio.raw.write(
                    str(path),
                    geometry,
                    fields,
                    meta["fields"],
                    crs=meta["crs"],
                    geometry_type="Unknown",
                    driver="GeoJSONSeq",
                )
                yield _name(layer), path
                first += len(geometry)
                if len(geometry) < _CHUNK:
                    break
    except PlanError:
        raise
    except (RuntimeError, ValueError, OSError) as error:
        raise PlanError(f"{file}: cannot be read: {str(error).splitlines()[0]}") from None


def _has_other_crs(file: Path) -> bool:
    """Return whether a GeoJSON file has a member ``crs`` (GeoJSON 2008) other than WGS 84.

    Raises:
        PlanError: it is not the name of a CRS.
    """
    try:
        with file.open("rb") as stream, mmap(stream.fileno(), 0, access=ACCESS_READ) as text:
            starts = [one.end() - 1 for one in _CRS.finditer(text)]
            found = [bytes(text[start : start + _LONGEST]) for start in starts]
    except (OSError, ValueError) as error:
        raise PlanError(f"{file}: cannot be read: {error}") from None
    for member in found:
        try:
            document, _ = json.JSONDecoder().raw_decode(member.decode(errors="replace"))
            if document.get("type") != "name":
                raise ValueError(f"it is of the type {document.get('type')!r}")
            crs = pyproj.CRS.from_user_input(str(document["properties"]["name"]))
        except (ValueError, KeyError, TypeError, pyproj.exceptions.CRSError) as error:
            raise PlanError(
                f"{file}: its member crs does not name a CRS ({error}); convert it: ogr2ogr -t_srs "
                "EPSG:4326"
            ) from None
        if not crs.equals(pyproj.CRS.from_user_input("OGC:CRS84"), ignore_axis_order=True):
            return True
    return False


def _identity(file: Path) -> str:
    """Return a text that changes with a file, or with one of the same name beside a Shapefile."""
    beside = [other for other in file.parent.iterdir() if other.stem == file.stem]
    is_shapefile = file.suffix.lower() == ".shp"
    return identity_of_files([str(file), *(str(other) for other in beside if is_shapefile)])


def _pyogrio() -> Any:
    try:
        import pyogrio.raw
    except ModuleNotFoundError:
        raise PlanError(f"pyogrio, which reads such files, is not installed; {_EXTRA}") from None
    return pyogrio


def _name(text: str) -> str:
    """Return a name of a layer without characters that tippecanoe removes."""
    return "".join(letter if letter.isalnum() else "_" for letter in text)


def _run(words: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, capture_output=True, text=True, check=False)  # noqa: S603
