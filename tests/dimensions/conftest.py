"""Tables of variants without files, and catalogues of small installations."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.series import colour_of, rewrite_layer, series_installation, write_value

from mastaba.catalogue import Catalogue
from mastaba.config.load import load_catalogue
from mastaba.config.server import load_server
from mastaba.model.layer import Layer
from mastaba.plugins.manager import Plugins
from mastaba.variants import VariantSource
from mastaba_dimensions.series import Series
from mastaba_documents.faults import Faults
from mastaba_server.threads.recent import Recent
from mastaba_storage.environment import Environment

MakeSeries = Callable[..., Series]

YEARS = ("1950", "1975", "2023")


class RefusedError(Exception):
    """A layer that is refused; the arguments are the key and the reason."""


def loaded(server_json: Path, faults: Faults | None = None) -> Catalogue:
    """Return the catalogue of an installation."""
    plugins, faults = Plugins(), faults or Faults()
    server = load_server(str(server_json), plugins, faults)
    return load_catalogue(server, plugins, Environment(), faults)


def document_of(folder: Path) -> dict[str, Any]:
    (path,) = folder.rglob("layers/ORTHO.json")
    document: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return document


def with_template(folder: Path, years: Sequence[str] = YEARS, **options: Any) -> Path:
    """Write an installation whose variants are the files of a template."""
    server_json = series_installation(folder, [{"time": "1900"}], **options)
    for position, year in enumerate(years):
        write_value(folder, f"ortho_{year}", colour_of(position))
    document = document_of(folder)
    document["variants"] = {"template": str(folder / "pyramids/ortho_{time}.json")}
    document["pyramids"][0]["path"] = str(folder / f"pyramids/ortho_{years[-1]}.json")
    rewrite_layer(folder, "ORTHO", document)
    return server_json


def with_stack(folder: Path, rows: Sequence[Mapping[str, Any]], **options: Any) -> Path:
    """Write an installation with the variants of a stack, beside the pyramids."""
    server_json = series_installation(folder, [{"time": "2023"}], **options)
    document = document_of(folder)
    document["variants"] = {"stack": str(folder / "pyramids/ortho.stack.json")}
    rewrite_layer(folder, "ORTHO", document)
    (folder / "pyramids/ortho.stack.json").write_text(json.dumps({"variants": rows}))
    return server_json


def replaced(folder: Path, year: str, colour: tuple[int, int, int]) -> None:
    """Replace the pyramid of a year by another one, with slabs of its own."""
    number = len(list((folder / "pyramids").glob("new_*.json")))
    path = write_value(folder, f"new_{number}", colour)
    path.replace(folder / f"pyramids/ortho_{year}.json")
    path.write_text("{}")


@pytest.fixture(scope="session")
def layer(tmp_path_factory: pytest.TempPathFactory) -> Layer:
    """Return a layer of bytes."""
    catalogue = loaded(series_installation(tmp_path_factory.mktemp("one"), [{"time": "1950"}]))
    return catalogue.layers["ORTHO"]


@pytest.fixture
def make_series(layer: Layer) -> MakeSeries:
    """Return what makes a table of values, whose pyramids do not exist."""

    def make(
        rows: Sequence[Mapping[str, str] | str],
        *dimensions: Mapping[str, Any],
        warnings: list[str] | None = None,
        **fields: Any,
    ) -> Series:
        def refuse(key: str, reason: str, _remedy: str) -> None:
            raise RefusedError(key, reason)

        def warning(_key: str, reason: str, _remedy: str) -> None:
            if warnings is not None:
                warnings.append(reason)

        ats = [{"time": row} if isinstance(row, str) else dict(row) for row in rows]
        listing = [
            {"at": at, "pyramids": [{"path": f"{n}.json"}], "stamp": str(n)}
            for n, at in enumerate(ats)
        ]
        document = {
            "pyramids": [{"path": f"{len(rows) - 1}.json"}],
            "dimensions": list(dimensions or [{"name": "time"}]),
            **fields,
        }
        source = VariantSource(
            layer, document, "ORTHO", None, None, Recent(8), listing, refuse, warning
        )
        series = Series.open(source)
        assert series is not None
        return series

    return make
