"""The sums of source numbers of a version, ``NAME.sources.slabs``; only the builder reads them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

from mastaba_build.errors import VerificationError
from mastaba_build.output.numbers import NumberedSlab, Share, SourceKey
from mastaba_build.output.storage import OutputStore

SUMS = ".sources.slabs"
"""End of the name of the document."""


class SlabPosition(NamedTuple):
    """A slab: the identifier of its level, its column and its row."""

    level: str
    column: int
    row: int


@dataclass(frozen=True, slots=True)
class SourceRecord:
    """What a version knows of its sources.

    Attributes:
        root: directory or prefix of the slabs of numbers.
        next: the number of the next new source.
        keys: identity of each source by its number.
        slabs: slabs of numbers, by their place.
        overrides: fields of rows that were set by hand, by number.
    """

    root: str
    next: int
    keys: Mapping[int, SourceKey]
    slabs: Mapping[SlabPosition, NumberedSlab]
    overrides: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def text(self) -> bytes:
        """Return the document, with one line for each slab."""
        head = {
            "version": 1,
            "root": self.root,
            "next": self.next,
            "keys": {str(number): key for number, key in sorted(self.keys.items())},
            "overrides": self.overrides,
            "columns": [*SlabPosition._fields, *NumberedSlab._fields],
        }
        lines = ",\n".join(
            f"    {json.dumps([*place, *slab], ensure_ascii=False)}"
            for place, slab in self.slabs.items()
        )
        text = json.dumps(head, indent=2, ensure_ascii=False)
        return f'{text[:-2]},\n  "slabs": [\n{lines}\n  ]\n}}\n'.encode()

    @classmethod
    def parse(cls, data: bytes, name: str) -> Self:
        """Return a record.

        Args:
            name: of the document, for messages.

        Raises:
            VerificationError: it is damaged, or of another version of this program.
        """
        try:
            document = json.loads(data)
            if document["columns"] != [*SlabPosition._fields, *NumberedSlab._fields]:
                raise ValueError("its slabs have other columns")
            slabs = {}
            for level, column, row, size, md5, shares, holder in document["slabs"]:
                slab = NumberedSlab(size, md5, tuple(Share(*one) for one in shares), holder)
                slabs[SlabPosition(level, column, row)] = slab
            keys = {int(number): SourceKey(*key) for number, key in document["keys"].items()}
            root, following = str(document["root"]), int(document["next"])
            return cls(root, following, keys, slabs, document["overrides"])
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise VerificationError(f"{name} cannot be used: {error}") from None

    def shares(self) -> Iterator[tuple[str, Share]]:
        """Yield the shares of all slabs, with the identifier of the level."""
        for place, slab in self.slabs.items():
            for share in slab.shares:
                yield place.level, share


def read_source_record(store: OutputStore, stem: str) -> SourceRecord | None:
    """Return the record of a version; None if it has no source numbers.

    Args:
        stem: start of the names of its documents.

    Raises:
        VerificationError: it is damaged.
        OutputError: it cannot be read.
    """
    data = store.read_if_exists(f"{stem}{SUMS}")
    return None if data is None else SourceRecord.parse(data, f"{stem}{SUMS}")


def numbers_known(records: Iterable[SourceRecord]) -> tuple[dict[SourceKey, int], int]:
    """Return the numbers of all identities in some versions, and the next number."""
    known: dict[SourceKey, int] = {}
    following = 1
    for record in records:
        following = max(following, record.next)
        for number, key in record.keys.items():
            known.setdefault(key, number)
    return known, following
