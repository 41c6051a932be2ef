"""Heads of large files, which are kept so that a range does not plan its file again."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from tests.coverage.ground import Ground, made

from mastaba.errors import ObjectChangedError
from mastaba_coverage import Answer, CoverageLimits
from mastaba_coverage.block import TileBlock
from mastaba_coverage.heads import HeadCache


@pytest.fixture(autouse=True)
def every_file_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mastaba_coverage.answer._FEW", 0)


def answer(ground: Ground, heads: HeadCache) -> Answer:
    return Answer(ground.whole(), CoverageLimits(), heads=heads)


def content(one: Answer) -> bytes:
    return b"".join(one.pieces(0, one.size))


def test_kept_head_gives_the_same_file_without_reading_indices(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ground = Ground(tmp_path)
    heads = HeadCache(tmp_path / "heads")
    first = answer(ground, heads)
    monkeypatch.delattr(TileBlock, "look_up")
    again = answer(ground, heads)
    assert (again.size, again.version) == (first.size, first.version)
    assert content(again) == content(first)
    ground.close()


def test_kept_head_of_replaced_data_is_dropped(tmp_path: Path) -> None:
    ground = Ground(tmp_path)
    heads = HeadCache(tmp_path / "heads")
    first = answer(ground, heads)

    def other(level: str, row: int, col: int) -> np.ndarray | None:
        tile = made(ground.name, 1, level, row, col)
        return None if tile is None else tile + np.float32(1)

    ground.write(tile=other)
    for path in (tmp_path / "pyramids").rglob("*.tif"):
        os.utime(path, (1, 1))
    kept = answer(ground, heads)
    assert kept.version == first.version
    with pytest.raises(ObjectChangedError):
        content(kept)
    fresh = answer(ground, heads)
    assert fresh.version != first.version
    assert len(content(fresh)) == fresh.size
    ground.close()


def test_heads_are_few_valid_for_a_time_and_the_users_own(tmp_path: Path) -> None:
    ground = Ground(tmp_path)
    directory = tmp_path / "heads"
    answer(ground, HeadCache(directory))
    (file,) = directory.iterdir()
    assert HeadCache(directory).find(file.stem) is not None
    assert HeadCache(directory, validity=0.0).find(file.stem) is None
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2])
    assert HeadCache(directory).find(file.stem) is None
    answer(ground, HeadCache(directory, most=10, validity=0.0))
    assert list(directory.iterdir()) == []
    directory.chmod(0o777)
    answer(ground, HeadCache(directory))
    assert list(directory.iterdir()) == []
    ground.close()
