"""Files that take the place of others when they are complete."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import BinaryIO


@contextmanager
def replaced_file(path: str) -> Iterator[BinaryIO]:
    """Open a new file that only its owner reads; at the end, it takes the place of another one.

    Readers see the former file or the whole new one, also after the machine has failed. Until
    then, its name begins with a dot. After an error, the former file stays.

    Raises:
        OSError: it cannot be written.
    """
    descriptor, temporary = tempfile.mkstemp(prefix=".", dir=os.path.dirname(path) or ".")
    try:
        with open(descriptor, "wb") as stream:
            yield stream
            stream.flush()
            os.fsync(descriptor)
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise
