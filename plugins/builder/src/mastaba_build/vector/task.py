"""One slab of a vector pyramid: its tiles, without compression."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence

from mastaba_build.errors import SourceError
from mastaba_build.output.storage import OutputStore, Written
from mastaba_build.pixels.task import SlabResult, limits_around
from mastaba_build.plan.names import slab_key
from mastaba_build.plan.plan import SlabKey
from mastaba_build.vector.archives import Archive
from mastaba_build.vector.formats import open_archive
from mastaba_build.vector.payload import vector_tile
from mastaba_build.vector.plan import FORMAT, VectorPlan, archive_identity
from mastaba_build.vector.tables import damaged
from mastaba_writer.slab_writer import build_slab

_LARGEST_SLAB = (1 << 32) - 1


class VectorSlabBuilder:
    """Imports slabs of one plan, in one process; see `SlabBuilder`."""

    def __init__(self, plan: VectorPlan, target: OutputStore | None = None) -> None:
        self._plan = plan
        self._target = target
        self._archive: Archive | None = None

    @classmethod
    def for_output(cls, plan: VectorPlan) -> VectorSlabBuilder:
        """Return a builder that writes to the output of the plan.

        Raises:
            OutputError: the output cannot be opened.
        """
        return cls(plan, plan.configuration.output.open().below(plan.root))

    def build(self, slab: SlabKey, children: Sequence[SlabKey] = ()) -> SlabResult:
        """Read the tiles of a slab and write it; without a tile that is not empty, nothing.

        Raises:
            BuildError: the archive or a tile cannot be used.
            OutputError: the slab cannot be written.
        """
        started = time.monotonic()
        self._archive = self._archive or open_archive(self._plan.archive)
        width, height = self._plan.configuration.slab
        tiles: list[bytes | None] = [None] * (width * height)
        found: list[tuple[int, int]] = []
        for tile in self._archive.tiles(self._plan.blocks[slab]):
            try:
                data = vector_tile(tile.data)
            except ValueError as error:
                raise SourceError(f"{self._plan.archive}: {damaged(tile, error)}") from None
            if data:
                tiles[tile.row % height * width + tile.column % width] = data
                found.append((tile.row, tile.column))
        size, written = 0, Written("", None)
        if found:
            if 2048 + sum(len(tile or b"") + 24 for tile in tiles) > _LARGEST_SLAB:
                raise SourceError(f"slab {slab}: exceeds 4 GiB; use smaller slabs")
            slab_bytes = build_slab(
                tiles, format=FORMAT, tiles_per_width=width, tiles_per_height=height
            )
            size = len(slab_bytes)
            self._check_source()
            if self._target is not None:
                written = self._target.write(slab_key(self._plan, slab), slab_bytes)
        seconds = time.monotonic() - started
        return SlabResult(slab, size, *written, len(found), limits_around(found), seconds, "")

    def _check_source(self) -> None:
        path = self._plan.archive
        if os.path.isdir(path):
            return  # looking at all files for each slab would take longer than reading it
        for origin in self._plan.origins:
            if origin.path == path and archive_identity(path) != origin.identity:
                raise SourceError(f"{path}: has changed since the start; build again")
