"""An installation as documents in memory, to be changed, written and checked."""

from __future__ import annotations

import copy
import json
import re
from argparse import Namespace
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest

import mastaba_render.plugin
from mastaba import hookimpl
from mastaba.catalogue import Catalogue
from mastaba.config.load import load_catalogue
from mastaba.config.server import ServerConfig, load_server
from mastaba.errors import ConfigurationError
from mastaba.plugins.manager import Plugins
from mastaba.services.base import Service
from mastaba_doctor.commands import check
from mastaba_documents.faults import Fault, Faults
from mastaba_server.web.request import Request
from mastaba_server.web.response import Response, message
from mastaba_storage.environment import Environment
from mastaba_writer.tile_matrix_sets import web_mercator


class Sample(Service):
    """A service with its own setting."""

    name: ClassVar[str] = "sample"
    title: ClassVar[str] = "Sample service"
    settings_schema: ClassVar[dict[str, Any]] = {
        "depth": {"type": "integer", "minimum": 1, "description": "How deep."}
    }

    def respond(self, request: Request) -> Response:
        return message(200, "sample", "text/plain")

    def error_response(self, error: Exception, request: Request) -> Response:
        return message(500, "error", "text/plain")


class WMS(Sample):
    name: ClassVar[str] = "wms"
    title: ClassVar[str] = "WMS service"
    is_raster_only: ClassVar[bool] = True


class WMTS(Sample):
    name: ClassVar[str] = "wmts"
    title: ClassVar[str] = "WMTS service"
    is_raster_only: ClassVar[bool] = True


class _Plugin:
    @hookimpl
    def register_services(self) -> Sequence[type[Service]]:
        return [Sample, WMS, WMTS]


@pytest.fixture(scope="session")
def sample_plugins() -> Plugins:
    return Plugins(autoload=False, extra={"render": mastaba_render.plugin, "samples": _Plugin()})


DOCUMENTS: dict[str, Any] = {
    "server.json": {
        "port": "127.0.0.1:9000",
        "backlog": 5,
        "threads": 2,
        "workers": 3,
        "logger": {
            "output": "standard_output",
            "level": "info",
            "file_prefix": "/tmp/x",
            "file_period": 60,
        },
        "cache": {"size": 10, "validity": 2},
        "configurations": {
            "services": "services.json",
            "layers": "layers.txt",
            "styles": "styles",
            "tile_matrix_sets": "tilematrixsets/",
        },
    },
    "services.json": {
        "enabled": True,
        "global": {
            "provider": "P",
            "site": "http://p.example",
            "fee": "none",
            "access_constraint": "none",
            "contact": {"name": "N", "city": "C"},
            "crs_equivalences": "equivalences.json",
            "default_style": "normal",
            "inspire": False,
            "map": {
                "reprojection": True,
                "formats": ["image/png", "image/jpeg"],
                "crs": ["EPSG:2154"],
                "limits": {"layers_count": 2, "width": 3, "height": 4, "tile_x": 5, "tile_y": 6},
            },
            "tile": {"reprojection": True},
        },
        "sample": {
            "enabled": True,
            "endpoint_uri": "http://maps.example/sample/",
            "root_path": "/sample",
            "title": "T",
            "abstract": "A",
            "keywords": ["k"],
            "metadata": {"format": "text/xml", "type": "ISO", "url": "http://m.example"},
            "depth": 3,
        },
        "health": {"enabled": True},
    },
    "equivalences.json": {"IGNF:LAMB93": ["EPSG:2154"]},
    "layers.txt": "# layers\n\n layers/L.json \r\n",
    "layers/L.json": {
        "title": "Layer",
        "abstract": "",
        "keywords": ["a"],
        "metadata": [{"format": "text/xml", "type": "ISO", "url": "http://m.example"}],
        "attribution": {
            "title": "Who",
            "url": "http://w.example",
            "logo": {"width": 10, "height": 20, "format": "image/png", "url": "http://l.example"},
        },
        "pyramids": [{"path": "pyramids/P.json", "bottom_level": "4", "top_level": "2"}],
        "bbox": {"west": 0.5, "south": 40.5, "east": 40.5, "north": 60.5},
        "styles": ["normal", "ember"],
        "resampling": "linear",
        "extra_crs": ["EPSG:2154"],
        "extra_tilematrixsets": ["OTHER"],
        "get_feature_info": {"type": "PYRAMID"},
        "wms": {"enabled": True},
    },
    "pyramids/P.json": {
        "tile_matrix_set": "PM",
        "format": "TIFF_PNG_UINT8",
        "raster_specifications": {
            "channels": 1,
            "nodata": "255",
            "photometric": "gray",
            "interpolation": "nn",
        },
        "levels": [
            {
                "id": level,
                "tiles_per_width": 2,
                "tiles_per_height": 2,
                "tile_limits": {"min_row": 0, "max_row": last, "min_col": 0, "max_col": last},
                "storage": {
                    "type": "FILE",
                    "image_directory": f"P/DATA/{level}",
                    "path_depth": 2,
                },
            }
            for level, last in (("4", 15), ("2", 3), ("3", 7))
        ],
    },
    "styles/normal.json": {"identifier": "normal", "title": "Stored data"},
    "styles/ember.json": {
        "identifier": "ember",
        "title": "Ember",
        "abstract": "",
        "keywords": ["k"],
        "legend": {
            "format": "image/png",
            "url": "http://l.example",
            "width": 10,
            "height": 20,
            "min_scale_denominator": 0,
            "max_scale_denominator": 1e9,
        },
        "palette": {
            "no_alpha": False,
            "rgb_continuous": True,
            "alpha_continuous": True,
            "colours": [
                {"value": 255, "red": 255, "green": 240, "blue": 128, "alpha": 0},
                {"value": 0, "red": 96, "green": 0, "blue": 16, "alpha": 255},
            ],
        },
    },
    "tilematrixsets/PM.json": {**web_mercator(6), "title": "Mercator", "keywords": ["k"]},
    "tilematrixsets/OTHER.json": {**web_mercator(6), "id": "OTHER"},
}

_STEP = re.compile(r"[^.\[\]]+")


@dataclass(frozen=True)
class Reported:
    """One problem as `mastaba check` prints it."""

    severity: str
    file: str
    path: str
    reason: str
    remedy: str


class Installation:
    """Documents by file name; relative names, so the working directory must be its own."""

    def __init__(self, directory: Path, plugins: Plugins) -> None:
        self.directory = directory
        self.plugins = plugins
        self.documents: dict[str, Any] = copy.deepcopy(DOCUMENTS)

    def set(self, file: str, path: str, value: Any) -> None:
        """Put a value at a JSON path; the whole document for ``$``."""
        *steps, last = [int(s) if s.isdigit() else s for s in ["$", *_STEP.findall(path)[1:]]]
        node: Any = {"$": self.documents[file]}
        whole = node
        for step in steps:
            node = node[step]
        node[last] = value
        self.documents[file] = whole["$"]

    def remove(self, file: str, path: str) -> None:
        """Take out the member at a JSON path."""
        parent, _, last = path.rpartition(".")
        node = self.documents[file]
        for step in _STEP.findall(parent)[1:]:
            node = node[int(step) if step.isdigit() else step]
        del node[last]

    def write(self) -> Path:
        """Write all files and return the path of server.json."""
        for name, document in self.documents.items():
            path = self.directory / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if isinstance(document, bytes):
                path.write_bytes(document)
            else:
                text = document if name.endswith(".txt") else json.dumps(document)
                path.write_text(text, encoding="utf-8", newline="")
        return self.directory / "server.json"

    def load(self) -> tuple[ServerConfig | None, Catalogue | None, tuple[Fault, ...]]:
        """Write and load; return what could be loaded, and the problems."""
        self.write()
        faults = Faults()
        server = catalogue = None
        with suppress(ConfigurationError):
            server = load_server("server.json", self.plugins, faults)
            catalogue = load_catalogue(server, self.plugins, Environment({}), faults)
        return server, catalogue, faults.all

    def catalogue(self) -> Catalogue:
        """Write and load an installation that must have no problem."""
        _, catalogue, faults = self.load()
        assert faults == ()
        assert catalogue is not None
        return catalogue


@pytest.fixture
def installation(
    tmp_path: Path, sample_plugins: Plugins, monkeypatch: pytest.MonkeyPatch
) -> Installation:
    monkeypatch.chdir(tmp_path)
    return Installation(tmp_path, sample_plugins)


@pytest.fixture
def run_check(
    installation: Installation, capsys: pytest.CaptureFixture[str]
) -> Callable[[], tuple[int, list[Reported]]]:
    """Return a function that writes the installation and runs `mastaba check` on it."""

    def run(file: str = "server.json") -> tuple[int, list[Reported]]:
        installation.write()
        capsys.readouterr()
        status = check.run(
            Namespace(
                file=file, plugins=installation.plugins, deep=False, samples=None, format="text"
            )
        )
        printed = capsys.readouterr()
        assert printed.err == ""
        *lines, summary = printed.out.splitlines()
        assert re.fullmatch(
            r"\d+ errors, \d+ warnings, \d+ layers usable(; not published: .+)?", summary
        )
        reported = []
        while lines:
            severity, name, path = lines.pop(0).split(": ", 2)
            reason = lines.pop(0).removeprefix("    ")
            remedy = (
                lines.pop(0).removeprefix("    to do: ")
                if lines[:1] and lines[0].startswith("    to do: ")
                else ""
            )
            reported.append(Reported(severity, name, path, reason, remedy))
        return status, reported

    return run
