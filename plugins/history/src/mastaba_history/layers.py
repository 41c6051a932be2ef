"""The histories of layers, which may have several pyramids."""

from __future__ import annotations

import bisect
import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from mastaba.api.catalogue import CRS, BoundingBox, geographic_bbox
from mastaba.api.storages import ResourcePath
from mastaba.errors import MastabaError, ObjectNotFoundError
from mastaba_history.records import KEPT, Box, History, Publication, Version

if TYPE_CHECKING:
    from mastaba.api.catalogue import Layer
    from mastaba.api.storages import StoragePool

logger = logging.getLogger("mastaba.history")

REQUESTS: Final = 16
"""Documents that are read at a time."""

Report = Callable[[ResourcePath, Exception], object]
"""Gets the path of a history that cannot be used, and why: `MastabaError` if it is unreadable."""


def log(path: ResourcePath, error: Exception) -> None:
    """Report a history in the log."""
    what = "read" if isinstance(error, MastabaError) else "used"
    logger.warning("the history %s cannot be %s: %s", path, what, error)


@dataclass(frozen=True, slots=True)
class LayerHistory:
    """The history of a layer.

    Attributes:
        parts: histories of its pyramids, with the paths of their descriptors.
        published: the oldest first; never empty.
    """

    parts: tuple[tuple[ResourcePath, History], ...]
    published: tuple[Publication, ...]

    @property
    def token(self) -> str:
        """Token of what is published now."""
        return self.published[-1].token

    def versions(self, token: str) -> tuple[Version, ...] | None:
        """Return the versions of the pyramids that a token means; None if it means nothing."""
        generations = token.split(".", len(self.parts))
        if len(generations) != len(self.parts):
            return None
        found = []
        for (_, history), generation in zip(self.parts, generations, strict=True):
            version = history.versions.get(generation)
            if version is None:
                return None
            found.append(version)
        return tuple(found)

    def at(self, instant: datetime) -> Publication | None:
        """Return what was published at an instant; None before the first publication."""
        number = bisect.bisect_right(self.published, instant, key=lambda one: one.since)
        return self.published[number - 1] if number else None

    def later(self, token: str) -> Publication | None:
        """Return the next publication after a token was last published that can be asked for."""
        numbers = [i for i, one in enumerate(self.published) if one.token == token]
        after = self.published[numbers[-1] + 1 :] if numbers else self.published[-1:]
        return next((one for one in after if state_of(self.versions(one.token)) == KEPT), None)

    def changed(self) -> Iterator[tuple[Publication, str]]:
        """Yield publications, the newest first, with the token before; empty before the first."""
        for number in range(len(self.published) - 1, -1, -1):
            yield self.published[number], self.published[number - 1].token if number else ""


def state_of(versions: Iterable[Version] | None) -> str:
    """Return the state of versions together: ``kept`` only if all of them are."""
    states = [version.state for version in versions or ()]
    return next((state for state in states if state != KEPT), KEPT if states else "")


def layer_histories(
    layers: Mapping[str, Layer], storages: StoragePool, report: Report = log
) -> dict[str, LayerHistory]:
    """Return the histories of the layers that have one, by identifier.

    Histories that cannot be used are reported; their layers have none.
    """
    paths = {part.path for layer in layers.values() for part in layer.pyramid.parts}
    texts = texts_of(paths, storages, report)
    found = {}
    for identifier, layer in layers.items():
        pyramids = [(one.path, one.generation) for one in layer.pyramid.parts]
        history = history_of(pyramids, texts, report)
        if history is not None:
            found[identifier] = history
    return found


def texts_of(
    paths: Collection[str], storages: StoragePool, report: Report = log
) -> dict[str, bytes | None]:
    """Return the histories of pyramids by the paths of their descriptors; None for none."""
    with ThreadPoolExecutor(REQUESTS) as threads:
        found = threads.map(lambda one: _read(storages, one, report), paths)
        return dict(zip(paths, found, strict=True))


def sibling(path: ResourcePath, end: str) -> ResourcePath:
    """Return the path of a document beside a descriptor, such as ``.history.json``."""
    return ResourcePath(path.storage, path.container, path.key.removesuffix(".json") + end)


def _read(storages: StoragePool, path: str, report: Report) -> bytes | None:
    document = sibling(ResourcePath.parse(path), ".history.json")
    try:
        return storages.read_full(document)
    except ObjectNotFoundError:
        return None
    except MastabaError as error:
        report(document, error)
        return None


def history_of(
    pyramids: Iterable[tuple[str, str]],
    texts: Mapping[str, bytes | None],
    report: Report = log,
) -> LayerHistory | None:
    """Return the history of a layer; None if it has none.

    Args:
        pyramids: paths of the descriptors of its pyramids, and their generations.
        texts: of `texts_of`.
    """
    parts = []
    for name, generation in pyramids:
        data, path = texts.get(name), ResourcePath.parse(name)
        if data is None:
            return None
        try:
            history = History.parse(data, generation)
        except ValueError as error:
            report(sibling(path, ".history.json"), error)
            return None
        if history is None:
            return None
        parts.append((path, history))
    if not parts:
        return None
    return LayerHistory(tuple(parts), _merged([history for _, history in parts]))


def _merged(histories: Sequence[History]) -> tuple[Publication, ...]:
    """Return the publications of a layer: one whenever one of its pyramids was published."""
    if len(histories) == 1:
        return histories[0].published
    events = sorted(
        (
            (one.since, number, one)
            for number, history in enumerate(histories)
            for one in history.published
        ),
        key=lambda event: event[:2],
    )
    now: dict[int, Publication] = {}
    published: list[Publication] = []
    for since, number, one in events:
        now[number] = one
        if len(now) == len(histories):
            current = [now[key] for key in range(len(histories))]
            token = ".".join(each.token for each in current)
            numbers = tuple(each.numbers[0] for each in current)
            bbox = one.bbox if published else None
            published.append(Publication(token, since, one.message, one.by, numbers, bbox))
    return tuple(published)


def shown_box(layer: Layer, box: Box | None) -> BoundingBox | None:
    """Return the part of a box that a client sees of a layer, in its CRS; None for nothing."""
    if box is None:
        return layer.native_bbox
    return BoundingBox(*box).intersection(layer.native_bbox) if box else None


# Feeds contain the same boxes again and again.
@lru_cache(maxsize=4096)
def geographic(box: BoundingBox, crs: CRS) -> tuple[float, float, float, float] | None:
    """Return a box in longitudes and latitudes, CRS84; None if it has none."""
    try:
        found = geographic_bbox(box, crs)
    except ValueError:
        return None
    return round(found.xmin, 9), round(found.ymin, 9), round(found.xmax, 9), round(found.ymax, 9)


def boxes(layer: Layer, box: Box | None) -> dict[str, Any]:
    """Return ``bbox`` (CRS84), ``native_bbox`` and ``crs`` of a publication, as documents do."""
    shown = shown_box(layer, box)
    if shown is None:
        return {}
    crs = layer.pyramid.tile_matrix_set.crs
    found = geographic(shown, crs)
    native = [shown.xmin, shown.ymin, shown.xmax, shown.ymax]
    return {**({"bbox": list(found)} if found else {}), "native_bbox": native, "crs": crs.code}
