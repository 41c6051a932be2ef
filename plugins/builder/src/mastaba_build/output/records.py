"""Build records: what a published version of a pyramid consists of, and what it was made from."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass
from typing import Any, NamedTuple, Self

from mastaba.api.catalogue import TileLimits
from mastaba_build.errors import VerificationError
from mastaba_build.output.parsing import parsed


class RecordedSlab(NamedTuple):
    """A slab of a version; its fields are the columns of the record.

    Attributes:
        level: identifier of the tile matrix.
        size, md5: of the stored slab; 0 and empty without data.
        tiles: tiles with data.
        limits: of the tiles with data: first and last row, first and last column.
        fingerprint, quarter: as in `Fingerprints` and `SlabResult`.
        holder: root of the version that contains the slab, if it is linked here.
    """

    level: str
    column: int
    row: int
    size: int
    md5: str
    tiles: int
    limits: TileLimits | None
    fingerprint: str
    quarter: str
    holder: str | None


@dataclass(frozen=True, slots=True)
class Record:
    """A build record, ``NAME.build.json``.

    Attributes:
        facts: everything but the slabs.
        slabs: all slabs of the plan, those without data included.
    """

    facts: Mapping[str, Any]
    slabs: tuple[RecordedSlab, ...]

    @property
    def plan(self) -> str:
        """Identity of the plan."""
        return str(self.facts["plan"])

    @property
    def root(self) -> str:
        """Directory or prefix of the slabs below the output."""
        return str(self.facts["root"])

    @property
    def tile_size(self) -> tuple[int, int]:
        """Width and height of a tile in pixels."""
        width, height = self.facts["tile_size"]
        return width, height

    def stored(self) -> Iterable[RecordedSlab]:
        """Return the slabs with data."""
        return (slab for slab in self.slabs if slab.size)

    def text(self) -> bytes:
        """Return the document, with one line for each slab."""
        head = json.dumps({**self.facts, "slab_columns": RecordedSlab._fields}, indent=2)
        lines = ",\n".join(f"    {json.dumps(_values(slab))}" for slab in self.slabs)
        return f'{head[:-2]},\n  "slabs": [\n{lines}\n  ]\n}}\n'.encode()

    @classmethod
    def parse(cls, data: bytes, name: str) -> Self:
        """Return a record.

        Args:
            name: of the document, for messages.

        Raises:
            VerificationError: it is damaged, or of another version of this program.
        """
        try:
            facts = parsed(data)
            if facts.pop("slab_columns") != list(RecordedSlab._fields):
                raise ValueError("its slabs have other columns")
            slabs = []
            for values in facts.pop("slabs"):
                edges = values[RecordedSlab._fields.index("limits")]
                slab = RecordedSlab._make(values)
                slabs.append(slab._replace(limits=TileLimits(*edges) if edges else None))
            facts["plan"], facts["root"], facts["tile_size"]
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise VerificationError(f"{name} cannot be used: {error}") from None
        return cls(facts, tuple(slabs))


def _values(slab: RecordedSlab) -> list[Any]:
    return [astuple(value) if isinstance(value, TileLimits) else value for value in slab]
