"""What the live tests publish, and where they keep what they install."""

from __future__ import annotations

import hashlib
import os
import shutil
import struct
import tempfile
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from tests.live.processes import REPOSITORY, is_root

from mastaba_conformance.tiny_installation import tiny_installation

ACCENTED_LAYER = "Été à 1 m"
SYSTEM_PYTHON = Path("/usr/bin/python3")

# Level, column and row of a tile of every layer, and of one that is taken away from RGB_PNG.
TILE = ("4", 9, 6)
MISSING_TILE = ("4", 10, 6)


def make_installation(folder: Path, public_url: str = "http://localhost") -> Path:
    """The tiny installation, with a layer of a difficult name, and without one slab."""
    folder.mkdir()
    server_json = tiny_installation(folder, public_url=public_url)
    accented = folder / "layers" / f"{ACCENTED_LAYER}.json"
    shutil.copy(folder / "layers" / "RGB_JPG.json", accented)
    with (folder / "layers.txt").open("a", encoding="utf-8") as stream:
        stream.write(f"{accented}\n")
    _slab(folder, "RGB_PNG", *MISSING_TILE).unlink()
    return server_json


def stored_tile(folder: Path, layer: str, level: str, col: int, row: int) -> bytes:
    """The bytes of a tile in its slab, read without the server's code."""
    slab = _slab(folder, layer, level, col, row).read_bytes()
    number = row % 2 * 2 + col % 2
    (offset,) = struct.unpack_from("<I", slab, 2048 + 4 * number)
    (size,) = struct.unpack_from("<I", slab, 2048 + 4 * (4 + number))
    return slab[offset : offset + size]


def cache_folder() -> Path:
    folder = REPOSITORY / ".run" / "live"
    reachable = all(parent.stat().st_mode & 0o001 for parent in REPOSITORY.parents)
    if is_root() and not (reachable and REPOSITORY.stat().st_mode & 0o001):
        folder = Path(tempfile.gettempdir()) / f"mastaba-live-cache-{os.geteuid()}"
    folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    assert folder.stat().st_uid == os.geteuid(), f"{folder} belongs to another user"
    return folder


def projects() -> Iterable[Path]:
    yield REPOSITORY / "core" / "pyproject.toml"
    yield from sorted(REPOSITORY.glob("libs/*/pyproject.toml"))
    yield from sorted(REPOSITORY.glob("plugins/*/pyproject.toml"))


@cache
def state_of_sources() -> str:
    """Return a digest of the sources of all distributions, as they are when it is called first."""
    digest = hashlib.sha256(SYSTEM_PYTHON.resolve().name.encode())
    for project in projects():
        sources = (path for path in project.parent.glob("src/**/*") if path.is_file())
        for path in [project, *sorted(sources)]:
            if path.suffix != ".pyc":
                digest.update(str(path.relative_to(REPOSITORY)).encode())
                digest.update(path.read_bytes())
    return digest.hexdigest()


def _slab(folder: Path, layer: str, level: str, col: int, row: int) -> Path:
    # Slabs of two by two tiles, and of indices with one digit.
    name = f"{col // 2}{row // 2}.tif"
    return folder / "pyramids" / layer / "DATA" / level / "00" / "00" / name
