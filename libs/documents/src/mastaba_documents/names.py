"""Names of the documents beside a pyramid."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Container, Iterator
from typing import Final

_OTHERS: Final = re.compile(
    r".*(?:\.(?:layer|build|history|versions|pins|changes|sources|stack)|_sources)\.json"
)
_VERSION: Final = re.compile(r"(.+)_([0-9]+)\.json")
_LISTS: Final = ("history", "versions")
"""Documents that list the versions of a pyramid."""

NumbersOf = Callable[[str], Collection[str]]
"""Gets the name of a pyramid, and returns the numbers of its versions."""


def is_beside_pyramid(
    name: str, names: Container[str], numbers_of: NumbersOf | None = None
) -> bool:
    """Return whether a file is no published pyramid, but a document of one, or one of its versions.

    Args:
        name: of a file that ends with ``.json``.
        names: of all files of the folder.
        numbers_of: as `numbers_in` returns. Without it, a file that is named like a version is one,
            unless it has a history of its own.
    """
    if _OTHERS.fullmatch(name):
        return True
    version = _VERSION.fullmatch(name)
    if version is None or f"{version[1]}.json" not in names:
        return False

    def has_versions(pyramid: str) -> bool:
        return any(f"{pyramid}.{end}.json" in names for end in _LISTS)

    # Versions have none of their own: a pyramid ``ortho_1950`` may be beside one called ``ortho``.
    if not has_versions(version[1]) or has_versions(name.removesuffix(".json")):
        return False
    numbers = numbers_of(version[1]) if numbers_of else ()
    return not numbers or version[2] in numbers


def documents_before(start: str) -> tuple[str, ...]:
    """Return the descriptor, and the lists of versions, of what may have versions of some names.

    Args:
        start: of the names, such as ``ortho_``; a list of names that begin so lacks ``ortho.json``.
    """
    pyramid = start.removesuffix("_")
    return f"{pyramid}.json", *(f"{pyramid}.{end}.json" for end in _LISTS)


def numbers_in(read: Callable[[str], str | bytes | None]) -> NumbersOf:
    """Return a function for `is_beside_pyramid` that reads the documents of each pyramid once.

    Of documents that are damaged, no numbers are known.

    Args:
        read: returns a file of the folder, None if it does not exist.
    """
    known: dict[str, frozenset[str]] = {}

    def numbers_of(pyramid: str) -> frozenset[str]:
        if pyramid not in known:
            known[pyramid] = frozenset(_numbers(pyramid, read))
        return known[pyramid]

    return numbers_of


def _numbers(pyramid: str, read: Callable[[str], str | bytes | None]) -> Iterator[str]:
    for end in _LISTS:
        try:
            versions = json.loads(read(f"{pyramid}.{end}.json") or "{}")["versions"]
            # The history has an object by number, the list of versions an array.
            found = versions if isinstance(versions, dict) else [one["number"] for one in versions]
        except (ValueError, KeyError, TypeError, RecursionError):
            continue
        yield from map(str, found)
