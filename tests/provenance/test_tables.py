"""The memory that tables of sources take."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from mastaba.api.storages import ResourcePath
from mastaba_provenance import tables
from mastaba_provenance.tables import SourceTables


class Store:
    """Tables by their path, of a size; counts reads."""

    def __init__(self) -> None:
        self.read: list[str] = []

    def read_full(self, path: ResourcePath) -> bytes:
        self.read.append(path.key)
        text = '{"version": 1, "pyramid": "a_sources.json", "next": 2, "sources": [{"number": 1}]}'
        return text.encode().ljust(4000)


def _layer(name: str) -> Any:
    own = {"provenance": f"/pyramids/{name}.sources.json"}
    pyramid = SimpleNamespace(parts=(), generation=name)
    return SimpleNamespace(own=own, id=name, key=name, pyramid=pyramid)


def test_tables_are_kept_up_to_a_number_of_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "_MOST_KEPT", 3 * 4000 + 100)
    known, store = SourceTables(), Store()
    layers = {name: _layer(name) for name in "abcd"}
    catalogue: Any = SimpleNamespace(layers=layers, shown=None, storages=store)
    for name in ("a", "b", "c", "a", "d", "a", "c", "b"):
        table = known.table_of(layers[name], catalogue)
        assert table is not None
        assert list(table.rows) == [1]
    read = [key.rpartition("/")[2][0] for key in store.read]
    assert read == ["a", "b", "c", "d", "b"]
