"""What is wanted: the options of the command line, or a configuration file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jsonschema_rs import Draft202012Validator

from mastaba.api.documents import Faults, parse_document, read_local_text
from mastaba.tooling.documents import unreadable
from mastaba_build.config.access import Access
from mastaba_build.config.dates import dates
from mastaba_build.config.schema import build_schema
from mastaba_build.errors import PlanError
from mastaba_build.output.destination import Destination

AUTO = "auto"
NO_ACCESS = Access()
FACTS = frozenset(
    {"date", "date_from", "accuracy", "licence", "attribution", "group", "footprints"}
)
"""Options of sources that no pixel depends on: they are about the table of sources."""


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """One entry of ``sources``.

    Attributes:
        path: file, folder, glob, list of files (``.txt``), STAC item or item collection, pyramid
            descriptor, or anything else that GDAL opens.
        order: ``name`` (bytewise), ``given``, ``resolution`` (the finest on top) or ``datetime``
            (of STAC items, the latest on top).
        nodata: one value per band, or one for all; None: the value in the file, if any.
        nodata_ranges: lowest and highest values; a pixel whose bands are all in one range has no
            data.
        tolerance: largest difference from nodata, in each band.
        touching_edges: only regions of such pixels that touch the border of the file have no data.
        bands: bands for the channels, counted from 1; None: all colour bands.
        scale: lowest and highest value, which become 0 and 255: of all bands, or of each.
        use_overviews: read overviews of the file where they are fine enough.
        crs: CRS of files without one.
        asset: key of the asset of STAC items; None: the one with the role ``data``.
        level: level of a pyramid; None: the finest.
        date, accuracy, licence, attribution, group: of the rows of the table of sources; see
            ``schemas/build.json``, as of the next ones.
        date_from: where the date is in the name of a file.
        footprints: file of polygons inside the sources, and its options, in canonical form.
    """

    path: str
    order: str = "name"
    nodata: tuple[float, ...] | None = None
    nodata_ranges: tuple[tuple[float, float], ...] = ()
    tolerance: float = 0.0
    touching_edges: bool = False
    bands: tuple[int, ...] | None = None
    scale: tuple[tuple[float, float], ...] | None = None
    use_overviews: bool = False
    crs: str | None = None
    asset: str | None = None
    level: str | None = None
    date: str | None = None
    date_from: str | None = None
    accuracy: float | str | None = None
    licence: str | None = None
    attribution: tuple[str, str] | None = None
    group: str | None = None
    footprints: tuple[tuple[str, str], ...] | None = None


@dataclass(frozen=True, slots=True)
class Configuration:
    """A build; see ``schemas/build.json`` for the meaning of each value.

    Attributes:
        access: what the sources may open. It is no part of configuration files: others may have
            written them.
    """

    name: str
    output: Destination
    sources: tuple[SourceOptions, ...]
    tile_matrix_set: str = "PM"
    tile_matrix_sets: Path | None = None
    like: str | None = None
    format: str = "auto"
    channels: int | None = None
    nodata: tuple[float, ...] | None = None
    slab: tuple[int, int] = (16, 16)
    path_depth: int = 2
    bottom: str = AUTO
    top: str = AUTO
    top_only: bool = False
    interpolation: str = "bicubic"
    decimation: str = "average"
    style: Path | None = None
    masks: bool = False
    empty_tiles: str = "skip"
    index_packs: bool = False
    protect_nodata: bool = False
    accept_losses: bool = False
    provenance: bool | None = None
    publish_paths: bool = False
    registration: str | None = None
    encoder: str = AUTO
    title: str | None = None
    work: Path | None = None
    scan_attributes: bool = False
    workers: int | None = None
    keep_work: bool = False
    server: Path | None = None
    memory: int | None = None
    list_md5: bool = False
    concurrency: int = 4
    pause: float = 0.0
    blank: str = "drop"
    draw_levels: bool = False
    engine: str = "local"
    retention: Mapping[str, int] = field(default_factory=dict)
    access: Access = NO_ACCESS

    @property
    def work_directory(self) -> Path:
        """The directory of the journal and the quarter images."""
        return self.work or self.output.directory / f".{self.name}.work"


def read_configuration(
    file: str,
    overrides: Mapping[str, Any],
    access: Access = NO_ACCESS,
) -> Configuration:
    """Read a configuration file, JSON or YAML; ``overrides`` come from the command line.

    Args:
        access: what sources may open in addition to files in their folders, and the plugins.

    Raises:
        PlanError: the file cannot be read or is invalid; the message names all problems.
    """
    try:
        text = read_local_text(file)
    except (OSError, ValueError) as error:
        raise PlanError(f"{file} {unreadable(error)}") from None
    faults = Faults()
    document = parse_document(text, file, faults)
    if document is None:
        raise PlanError("\n".join(str(fault) for fault in faults.errors))
    if isinstance(document, dict):
        document |= overrides
    return configuration_of(document, file, access)


def configuration_of(
    document: Any,
    origin: str,
    access: Access = NO_ACCESS,
) -> Configuration:
    """Return the configuration in a document.

    Args:
        origin: file or command, for messages.
        access: what sources may open in addition to files in their folders, and the plugins.

    Raises:
        PlanError: the document is invalid; the message names all problems.
    """
    errors = [
        f"{origin}: {'/'.join(map(str, error.instance_path)) or 'the document'}: {error.message}"
        for error in Draft202012Validator(build_schema()).iter_errors(document)
    ]
    if errors:
        raise PlanError("\n".join(errors))
    values = {key: _value(value) for key, value in document.items()}
    values["sources"] = tuple(
        _source(entry) if isinstance(entry, dict) else SourceOptions(entry)
        for entry in document["sources"]
    )
    for key in ("work", "server", "tile_matrix_sets", "style"):
        if key in values:
            values[key] = Path(values[key])
    values["output"] = output = Destination.parse(values["output"], access.plugins)
    if values.get("index_packs") and output.is_local:
        raise PlanError(f"{origin}: index packs are for object stores; remove index_packs")
    return Configuration(**values, access=access)


def _source(entry: dict[str, Any]) -> SourceOptions:
    values = {key: _value(value) for key, value in entry.items()}
    scale = values.get("scale", ())
    if scale and not isinstance(scale[0], tuple):
        values["scale"] = scale = (scale,)
    if any(low >= high for low, high in scale):
        raise PlanError(f"{values['path']}: scale: the first value must be less than the second")
    if any(low > high for low, high in values.get("nodata_ranges", ())):
        raise PlanError(f"{values['path']}: nodata_ranges: a first value is above the second")
    _set_facts(values)
    return SourceOptions(**values)


def _set_facts(values: dict[str, Any]) -> None:
    """Bring the options about the table of sources to one form, and check them."""
    attribution, footprints = values.get("attribution"), values.get("footprints")
    if isinstance(attribution, str):
        values["attribution"] = attribution, ""
    elif attribution is not None:
        values["attribution"] = attribution["title"], attribution.get("url", "")
    if footprints is not None:
        given = {"path": footprints} if isinstance(footprints, str) else footprints
        values["footprints"] = tuple(sorted(given.items()))
    if isinstance(values.get("accuracy"), str):
        with suppress(ValueError):
            values["accuracy"] = float(values["accuracy"])
    if "date_from" in values:
        try:
            has_group = re.compile(values["date_from"].removeprefix("name:")).groups > 0
        except re.error as error:
            raise PlanError(f"{values['path']}: date_from: {error}") from None
        if not has_group:
            raise PlanError(f"{values['path']}: date_from: the pattern has no group ( )")
    if "date" in values and not dates(values["date"]):
        reason = f"{values['date']!r} is not a date such as 2021-05-03"
        raise PlanError(f"{values['path']}: date: {reason}")


def _value(value: Any) -> Any:
    return tuple(map(_value, value)) if isinstance(value, list) else value
