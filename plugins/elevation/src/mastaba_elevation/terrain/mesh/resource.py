"""The mesh of a dataset: ``/mesh/layer.json`` and ``/mesh/{z}/{x}/{y}.terrain``."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final

from mastaba.api.documents import Fault, Severity
from mastaba.api.tiles import tile_index
from mastaba.errors import ConfigurationError, TileOutOfRangeError, UnknownPathError
from mastaba_elevation.queries.vertical import KEY
from mastaba_elevation.terrain.computed import ComputedTile
from mastaba_elevation.terrain.mesh.datum import Shift, shift_of
from mastaba_elevation.terrain.mesh.document import NORMALS, layer_json
from mastaba_elevation.terrain.mesh.source import MeshSource
from mastaba_elevation.terrain.mesh.tiling import Tiling
from mastaba_elevation.terrain.options import requested_options
from mastaba_elevation.terrain.resource import Context, Resource, identity_of, segment
from mastaba_server.threads.recent import Recent

if TYPE_CHECKING:
    from mastaba.api.web import Request, Response
    from mastaba_elevation.queries.datasets import Dataset

MEDIA_TYPE: Final = "application/vnd.quantized-mesh"

_EXTENSION: Final = ".terrain"
_MOST_SOURCES: Final = 512
"""Datasets, at their values, whose tilings are remembered."""
_NO_GRID_REMEDY: Final = (
    "correct it, or set terrain.mesh.grids in services.json to the directory of the grid"
)
_ACCEPTED: Final = re.compile(
    r"application/vnd\.quantized-mesh\s*;\s*extensions=([A-Za-z0-9-]{1,200})"
)


class Mesh(Resource):
    """Heights as triangles, for Cesium.

    Raises:
        ConfigurationError: a grid that makes heights ellipsoidal is missing.
    """

    operation: ClassVar[str] = "mesh"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        own = context.settings.mesh
        directory = Path(own.grids) if own.grids else None
        faults: list[Fault] = []
        shifts: dict[str, Shift] = {}
        for dataset in context.datasets.values():
            for item, vertical in zip(dataset.layers, dataset.verticals, strict=True):
                if item.id in shifts:
                    continue
                try:
                    shifts[item.id] = shift_of(vertical, directory)
                except ValueError as error:
                    place = f"$.{KEY}.to_ellipsoid"
                    fault = Fault(
                        Severity.ERROR, f"layer {item.id}", place, str(error), _NO_GRID_REMEDY
                    )
                    faults.append(fault)
                    shifts[item.id] = shift_of(type(vertical)())
        if faults:
            raise ConfigurationError(faults)
        self._shifts = shifts
        self._sources: Recent[MeshSource] = Recent(_MOST_SOURCES)

    def respond(self, request: Request, dataset: Dataset, path: list[str]) -> Response:
        if len(path) == 2 and path[1] == "layer.json":
            options = requested_options(request.query, self.context.settings.options)
            source = self._source(dataset)
            # Addresses of tiles begin at that of the document, whose name may lack the value.
            is_named = request.path.split("/")[1] == dataset.id
            place = "" if is_named else f"../../{segment(dataset)}/mesh/"
            document = layer_json(self.context, dataset, source.tiling, options, place)
            return document.respond(request)
        if len(path) != 4 or not path[3].endswith(_EXTENSION):
            raise UnknownPathError
        return self._tile(request, dataset, path)

    def offer(self, dataset: Dataset) -> str:
        return f"mesh 0 to {self._source(dataset).tiling.last}"

    def links(self, dataset: Dataset) -> list[dict[str, str]]:
        return [{"rel": "mesh", "href": f"{self.context.uri(dataset)}/mesh/layer.json"}]

    def _source(self, dataset: Dataset) -> MeshSource:
        key = identity_of(dataset)
        found = self._sources.get(key)
        if found is None:
            own = self.context.settings.mesh
            source = MeshSource(
                dataset,
                Tiling(dataset, own.size, own.error_factor),
                tuple(self._shifts[item.layer.id] for item in dataset.layers),
                self.context.site.catalogue.settings.equivalences,
            )
            found = self._sources.add(key, source)
        return found

    def _tile(self, request: Request, dataset: Dataset, path: list[str]) -> Response:
        z, x = tile_index(path[1], "z"), tile_index(path[2], "x")
        y = tile_index(path[3].removesuffix(_EXTENSION), "y")
        fill = requested_options(request.query, self.context.settings.options).fill
        source, own = self._source(dataset), self.context.settings.mesh
        if not source.tiling.contains(z, x, y):
            raise TileOutOfRangeError("there is no such tile in this dataset", ["z", "x", "y"])
        with_normals = NORMALS in _requested_extensions(request)
        budget = source.budget(z, self.context.settings.tiles)
        tile = ComputedTile(
            dataset,
            (own, source.identity, fill, z, x, y, with_normals),
            MEDIA_TYPE,
            ("Accept",),
            source.memory(z, fill),
            lambda: source.tile(z, x, y, budget, fill, with_normals=with_normals),
        )
        return tile.respond(request, self.context)


def _requested_extensions(request: Request) -> set[str]:
    """Return the extensions that the query or the header Accept requests."""
    names = request.query.get("extensions")
    if names is None:
        found = _ACCEPTED.search(request.header("Accept") or "")
        names = found[1] if found else ""
    return set(names.split("-"))
