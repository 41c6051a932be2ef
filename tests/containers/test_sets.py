"""Names that sets and pyramids have from their archives."""

from __future__ import annotations

import pytest

from mastaba.api.containers import Source
from mastaba_containers.sets import stem_of
from mastaba_storage.file import FileStorage
from mastaba_storage.path import ResourcePath


@pytest.mark.parametrize(
    ("key", "stem"),
    [
        ("planet.pmtiles", "planet"),
        ("/data/v1.2/planet.pmtiles", "planet"),
        ("planet.v3.pmtiles", "planet.v3"),
        ("planet.v3", "planet"),
        ("PLANET.PMTILES", "PLANET"),
        ("/data/v1.2/planet", "planet"),
        (".pmtiles", ".pmtiles"),
    ],
)
def test_an_archive_is_named_without_its_suffix(key: str, stem: str) -> None:
    assert stem_of(Source(ResourcePath("file", "", key), FileStorage())) == stem
