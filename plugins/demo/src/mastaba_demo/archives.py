"""The same world as archives of other formats, each of which is a layer too."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Final, NamedTuple

ARCHIVES: Final = "archives"
"""Name of the directory of the archives inside the installation directory."""
_EXPORT: Final = "export"


class _Archive(NamedTuple):
    """An archive.

    Attributes:
        file: its name.
        layer: the layer that it contains.
        format: what it is called.
        plugin: that reads it.
    """

    file: str
    layer: str
    format: str
    plugin: str


_ARCHIVES: Final = (
    _Archive("features.pmtiles", "features", "PMTiles", "pmtiles"),
    _Archive("topographic.mbtiles", "topographic", "MBTiles", "sqlite_tiles"),
    _Archive("imagery.tif", "imagery", "COG", "cog"),
)


def write_archives(directory: Path, server_json: Path) -> Iterator[str]:
    """Export layers of the world as archives, unless they exist.

    Args:
        directory: of the installation.

    Yields:
        what is missing to write an archive, or why it cannot be written.

    Raises:
        OSError: the directory cannot be made.
    """
    (directory / ARCHIVES).mkdir(exist_ok=True)
    installed = entry_points(group="mastaba").names
    for archive in _ARCHIVES:
        path = directory / ARCHIVES / archive.file
        missing = [name for name in (_EXPORT, archive.plugin) if name not in installed]
        if missing:
            yield f"{archive.file} needs the plugins {' and '.join(missing)}"
        elif not path.exists():
            # The exporter is a program of its own.
            command = ["-m", "mastaba", _EXPORT, "-f", str(server_json), archive.layer, str(path)]
            ended = subprocess.run(  # noqa: S603 - this Python, words of our own
                [sys.executable, *command], capture_output=True, text=True, check=False
            )
            if ended.returncode:
                yield f"{archive.file} cannot be written: {ended.stderr.strip()}"


def archive_layers(
    directory: Path, layers: Mapping[str, Mapping[str, Any]]
) -> dict[str, dict[str, Any]]:
    """Return a layer for each archive, and one with the imagery of both kinds.

    Args:
        directory: of the installation.
        layers: by name, from pyramids.
    """
    found: dict[str, dict[str, Any]] = {}
    for archive in _ARCHIVES:
        path = (directory / ARCHIVES / archive.file).resolve()
        if not path.exists():
            continue
        layer = layers[archive.layer]
        found[f"{archive.layer}_{path.suffix[1:]}"] = {
            **layer,
            "title": f"{layer['title']} ({archive.format})",
            "pyramids": [{"path": str(path)}],
        }
        if archive.format == "COG":
            (slabs,) = layer["pyramids"]
            bottom = slabs["bottom_level"]
            above = str(int(bottom) - 1)
            # Some overviews of the file are levels of the slabs, too.
            below = {"bottom_level": bottom, "top_level": bottom}
            found["imagery_hybrid"] = {
                **layer,
                "title": f"{layer['title']} (slabs above, a COG below)",
                "pyramids": [
                    {**slabs, "bottom_level": above},
                    {"path": str(path), "options": {"overviews": "skip"}, **below},
                ],
            }
    return found
