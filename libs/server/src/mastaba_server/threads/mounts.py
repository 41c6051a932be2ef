"""File systems that may stop answering: those of a network, and those of programs (FUSE)."""

from __future__ import annotations

import os
import re
from functools import lru_cache
from time import monotonic
from typing import Final

_TABLE: Final = "/proc/self/mountinfo"
_DISTANT: Final = re.compile(
    r"9p|afs|autofs|beegfs\w*|ceph|cifs|fuse(blk|\..+)?|glusterfs|gpfs|lustre|ncpfs|nfs4?|"
    r"ocfs2|orangefs|pvfs2|smb3|smbfs"
)
_ESCAPE: Final = re.compile(r"\\([0-7]{3})")
_MOST_LINKS: Final = 40


def distant_mount(path: str) -> str | None:
    """Return the mount point of a path if its file system may stop answering, or else None.

    Such a file system is not touched: it may hang already. Symbolic links before it are followed.
    """
    mounts = _mounts(int(monotonic()))
    if not any(mounts.values()):
        return None
    try:
        rest = os.path.abspath(path).split("/")[::-1]
    except OSError:  # the working directory no longer exists
        return None
    here, links = "", 0
    while rest:
        name = rest.pop()
        if name in ("", "."):
            continue
        if name == "..":
            here = here.rpartition("/")[0]
            continue
        here = f"{here}/{name}"
        if mounts.get(here):
            return here
        try:
            target = os.readlink(here)
        except (OSError, ValueError):
            continue
        links += 1
        if links > _MOST_LINKS:
            return None
        here = "" if target.startswith("/") else here.rpartition("/")[0]
        rest += target.split("/")[::-1]
    return None


@lru_cache(maxsize=1)
def _mounts(_second: int) -> dict[str, bool]:
    """Return the mount points, and whether their file systems may stop answering."""
    try:
        with open(_TABLE, encoding="utf-8", errors="surrogateescape") as table:
            lines = [line.split() for line in table]
    except OSError:
        return {}  # not Linux
    found = {}
    for fields in lines:
        point = _ESCAPE.sub(lambda code: chr(int(code[1], 8)), fields[4])
        kind = fields[fields.index("-") + 1]
        # A later mount hides an earlier one at the same place.
        found[point] = _DISTANT.fullmatch(kind) is not None
    return found
