"""Templates whose pyramids are objects of a storage."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, ClassVar, Self

import pytest
from tests.conformance.shelf import ShelfStorage
from tests.dimensions.conftest import document_of
from tests.series import colour_of, rewrite_layer, series_installation, write_value

from mastaba import hookimpl
from mastaba.catalogue import Catalogue
from mastaba.config.load import load_catalogue
from mastaba.config.server import load_server
from mastaba.errors import StorageUnavailableError
from mastaba.plugins.manager import Plugins
from mastaba_dimensions import listing
from mastaba_documents.faults import Faults
from mastaba_storage.base import Storage
from mastaba_storage.environment import Environment

YEARS = ("1950", "1975", "2023")


class Bucket(ShelfStorage):
    """The objects of a folder, whatever the container is called."""

    folder: ClassVar[str] = ""
    is_down: ClassVar[bool] = False
    writer: ClassVar[str | None] = "tests.dimensions.test_objects:Bucket"

    @classmethod
    def open(cls, container: str, environment: Environment) -> Self:
        return cls(cls.folder)

    def list(self, prefix: str) -> Iterator[str]:
        if Bucket.is_down:
            raise self.error(StorageUnavailableError, prefix, "does not answer")
        yield from super().list(prefix)


class Reader(Bucket):
    """The same, which only reads."""

    writer: ClassVar[str | None] = None


class ShelfPlugin:
    def __init__(self, storage: type[Storage]) -> None:
        self._storage = storage

    @hookimpl
    def register_storages(self) -> Iterable[type[Storage]]:
        return [self._storage]


@pytest.fixture
def server_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A layer with a template in a bucket, where the builder's documents and slabs are too."""
    bucket = tmp_path / "bucket"
    bucket.mkdir()
    monkeypatch.setattr(Bucket, "folder", str(bucket))
    monkeypatch.setattr(Bucket, "is_down", False)
    file = series_installation(tmp_path, [{"time": "1900"}])
    storage = Bucket(str(bucket))
    for position, year in enumerate(YEARS):
        path = write_value(tmp_path, f"ortho_{year}", colour_of(position))
        storage.write(f"deep/ortho_{year}.json", path.read_bytes())
        storage.write(f"deep/ortho_{year}_2.json", b"{}")
        storage.write(f"deep/ortho_{year}/DATA/1/00.tif", b"slab")
        for slab in (tmp_path / "pyramids" / f"ortho_{year}").rglob("*.tif"):
            name = slab.relative_to(tmp_path / "pyramids")
            storage.write(f"deep/{name}", slab.read_bytes())
    storage.write("deep/other_1951.json", b"{}")
    document = document_of(tmp_path)
    document["variants"] = {"template": "shelf://bucket/deep/ortho_{time}.json"}
    document["pyramids"][0]["path"] = "shelf://bucket/deep/ortho_2023.json"
    rewrite_layer(tmp_path, "ORTHO", document)
    return file


def loaded(server_json: Path, faults: Faults, storage: type[Storage] = Bucket) -> Catalogue:
    plugins = Plugins(extra={"shelf": ShelfPlugin(storage)})
    server = load_server(str(server_json), plugins, faults)
    return load_catalogue(server, plugins, Environment(), faults)


def test_a_template_finds_the_objects_of_a_bucket(server_json: Path) -> None:
    faults = Faults()
    catalogue = loaded(server_json, faults)
    assert not faults.errors
    (values,) = catalogue.values_of(catalogue.layers["ORTHO"])
    assert list(values.texts) == list(YEARS)
    layer = catalogue.resolve("ORTHO", {"time": "1975"}).layer
    assert layer.pyramid.parts[0].path == "shelf://bucket/deep/ortho_1975.json"


def test_versions_of_a_pyramid_beside_the_values_are_no_values(
    server_json: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = Bucket(Bucket.folder)
    one = storage.read("deep/ortho_1950.json").data
    for name in ("ortho", "ortho_1", "ortho_2"):
        storage.write(f"deep/{name}.json", one)
    storage.write("deep/ortho.history.json", b'{"versions": {"1": {}, "2": {}}}')
    keys: list[str] = []
    read = Bucket.read

    def noted(self: Bucket, key: str, *arguments: Any) -> Any:
        keys.append(key)
        return read(self, key, *arguments)

    monkeypatch.setattr(Bucket, "read", noted)
    catalogue = loaded(server_json, Faults())
    (values,) = catalogue.values_of(catalogue.layers["ORTHO"])
    assert list(values.texts) == list(YEARS)
    assert keys.count("deep/ortho.history.json") == 1


@pytest.mark.parametrize("fault", ["reads only", "does not answer", "too many"])
def test_what_cannot_be_listed_needs_a_stack(
    server_json: Path, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    faults = Faults()
    monkeypatch.setattr(Bucket, "is_down", fault == "does not answer")
    if fault == "too many":
        monkeypatch.setattr(listing, "_MOST_KEYS", 5)
    loaded(server_json, faults, Reader if fault == "reads only" else Bucket)
    (error,) = faults.errors
    assert error.path == "$.variants.template"
    assert "mastaba pyramid stack" in error.remedy
