"""Tables of variants without files, and catalogues of small installations."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.series import series_installation

from mastaba.catalogue import Catalogue
from mastaba.config.faults import Faults
from mastaba.config.load import load_catalogue
from mastaba.config.server import load_server
from mastaba.environment import Environment
from mastaba.model.layer import Layer
from mastaba.plugins.manager import Plugins
from mastaba.variants import VariantSource
from mastaba_dimensions.series import Series
from mastaba_server.threads.recent import Recent

MakeSeries = Callable[..., Series]


class RefusedError(Exception):
    """A layer that is refused; the arguments are the key and the reason."""


def loaded(server_json: Path, faults: Faults | None = None) -> Catalogue:
    """Return the catalogue of an installation."""
    plugins, faults = Plugins(), faults or Faults()
    server = load_server(str(server_json), plugins, faults)
    return load_catalogue(server, plugins, Environment(), faults)


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
