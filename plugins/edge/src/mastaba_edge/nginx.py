"""The files of an nginx cache.

nginx has no tags. But each cached file contains the header of the response, thus its surrogate
keys, and nginx fetches a response again when its file is gone.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator
from contextlib import suppress
from typing import Final

_NAME: Final = re.compile(r"[0-9a-f]{32}")
_KEYS: Final = re.compile(rb"\r\nsurrogate-key:([^\r]*)\r\n", re.I)
_HEAD: Final = 4096
_MOST: Final = 65536


def forget(folder: str, keys: Collection[str]) -> int:
    """Remove the cached responses that have one of the keys; return their number.

    Args:
        folder: of ``fastcgi_cache_path`` or ``proxy_cache_path``.
        keys: surrogate keys.

    Raises:
        OSError: a folder or file cannot be read or removed.
    """
    wanted = {key.encode("latin-1") for key in keys}
    count = 0
    for path in _files(folder):
        # nginx may remove or replace any file meanwhile.
        with suppress(FileNotFoundError):
            if not wanted.isdisjoint(_keys(path)):
                os.unlink(path)
                count += 1
    return count


def _files(folder: str) -> Iterator[str]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                with suppress(FileNotFoundError):
                    yield from _files(entry.path)
            elif _NAME.fullmatch(entry.name):
                yield entry.path


def _keys(path: str) -> list[bytes]:
    with open(path, "rb", buffering=0) as file:
        head = file.read(_HEAD)
        if len(head) == _HEAD and b"\r\n\r\n" not in head:
            head += file.read(_MOST)
    # A binary part, the line of the cache key, the header as the server sent it, the body.
    start = head.find(b"\nKEY: ")
    found = _KEYS.search(head, start, head.find(b"\r\n\r\n", start) + 2)
    return found[1].split() if found else []
