"""Large bodies: in a file, in full, and gone at the end."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from mastaba_server import body as module
from mastaba_server.body import IN_MEMORY, PIECE, SpooledBody, spooled

LARGE = [os.urandom(300_000) for _ in range(12)]


def test_a_small_body_is_bytes() -> None:
    assert spooled(iter([b"ab", b"", b"c"])) == b"abc"
    assert spooled([]) == b""
    assert spooled([bytes(IN_MEMORY)]) == bytes(IN_MEMORY)


def test_a_large_body_is_in_a_file_without_a_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    descriptors = len(os.listdir("/proc/self/fd"))
    body = spooled(iter(LARGE))
    assert isinstance(body, SpooledBody)
    assert len(body) == sum(map(len, LARGE))
    assert b"".join(body) == b"".join(LARGE)
    assert max(map(len, body)) == PIECE
    assert list(tmp_path.iterdir()) == []
    body.close()
    body.close()
    assert len(os.listdir("/proc/self/fd")) == descriptors


def test_a_folder_that_cannot_be_written_costs_memory_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    assert spooled(iter(LARGE)) == b"".join(LARGE)


def test_a_full_disk_in_the_middle_costs_memory_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each write accepts a part of the data until the space is used up."""
    write, room = os.pwrite, 2_000_000

    def full(descriptor: int, data: memoryview, offset: int) -> int:
        if offset >= room:
            raise OSError(28, "No space left on device")
        return write(descriptor, data[: min(70_000, room - offset)], offset)

    monkeypatch.setattr(module.os, "pwrite", full)
    assert spooled(iter(LARGE)) == b"".join(LARGE)


@pytest.mark.parametrize("pieces", [1, 12])
def test_an_error_in_the_middle_is_raised_and_leaves_no_file(pieces: int) -> None:
    def failing() -> Iterator[bytes]:
        yield from LARGE[:pieces]
        raise OSError("not of the file")

    descriptors = len(os.listdir("/proc/self/fd"))
    with pytest.raises(OSError, match="not of the file"):
        spooled(failing())
    assert len(os.listdir("/proc/self/fd")) == descriptors
