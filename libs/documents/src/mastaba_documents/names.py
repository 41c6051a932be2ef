"""Names of the documents beside a pyramid."""

from __future__ import annotations

import re
from collections.abc import Container
from typing import Final

_OTHERS: Final = re.compile(
    r".*(?:\.(?:layer|build|history|versions|pins|changes|sources|stack)|_sources)\.json"
)
_VERSION: Final = re.compile(r"(.+)_[0-9]+\.json")


def is_beside_pyramid(name: str, names: Container[str]) -> bool:
    """Return whether a file is no published pyramid, but a document of one, or one of its versions.

    Args:
        name: of a file that ends with ``.json``.
        names: of all files of the folder.
    """
    if _OTHERS.fullmatch(name):
        return True
    version = _VERSION.fullmatch(name)
    if version is None or f"{version[1]}.json" not in names:
        return False

    def has_versions(pyramid: str) -> bool:
        return any(f"{pyramid}.{end}.json" in names for end in ("versions", "history"))

    # Versions have none of their own: a pyramid ``ortho_1950`` may be beside one called ``ortho``.
    return has_versions(version[1]) and not has_versions(name.removesuffix(".json"))
