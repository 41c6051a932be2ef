"""The histories of the values of dimensions, which are read when they are first asked for."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from mastaba.api.catalogue import digest_of
from mastaba.api.storages import ResourcePath
from mastaba.errors import MastabaError
from mastaba_history.layers import (
    REQUESTS,
    LayerHistory,
    Report,
    history_of,
    layer_histories,
    log,
    texts_of,
)
from mastaba_server.threads.recent import Recent

if TYPE_CHECKING:
    from mastaba.api.catalogue import Catalogue, Layer
    from mastaba.api.storages import StoragePool

logger = logging.getLogger("mastaba.history")

MOST_LISTED: Final = 1000
"""Values of all layers whose publications are in feeds."""
_MOST_KEPT: Final = 512
"""Histories of values in memory that requests name."""
_PUBLICATIONS: Final = 101
"""Publications of each value for feeds: one more than an answer contains."""


class ValueHistories:
    """The histories of the values of the layers of a site; shared by its views.

    Args:
        catalogue: of the whole site.
    """

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue
        self._opened: Recent[tuple[LayerHistory | None]] = Recent(_MOST_KEPT)
        self._listed: dict[str, LayerHistory] | None = None
        self._lock = threading.Lock()

    def of(self, variant: Layer) -> LayerHistory | None:
        """Return the history of an open variant; None if it has none."""
        parts = variant.pyramid.parts
        known = self._opened.get(parts)
        if known is None:
            found = layer_histories({variant.key: variant}, self._catalogue.storages)
            known = self._opened.add(parts, (found.get(variant.key),))
        return known[0]

    def published(self, layers: Iterable[Layer], catalogue: Catalogue) -> dict[str, LayerHistory]:
        """Return the newest publications of the values of layers, by their keys.

        Nothing is opened. Of more than `MOST_LISTED` values, the first ones count.

        Args:
            catalogue: that shows the layers, perhaps a view.
        """
        with self._lock:
            if self._listed is None:
                self._listed = self._read()
        tables: Iterable[Any] = (catalogue.variants.get(layer.id) for layer in layers)
        keys = (one.key for table in tables if table is not None for one in table.variants())
        return {key: self._listed[key] for key in keys if key in self._listed}

    def check(self, report: Report) -> None:
        """Read the histories of values, and report those that cannot be used."""
        self._read(report)

    def _read(self, report: Report = log) -> dict[str, LayerHistory]:
        tables: Iterable[Any] = self._catalogue.variants.values()
        variants = (one for table in tables for one in table.variants())
        paths = {
            one.key: [str(ResourcePath.parse(entry["path"])) for entry in one.pyramids]
            for one in islice(variants, MOST_LISTED)
            if not any("container" in entry for entry in one.pyramids)
        }
        storages = self._catalogue.storages
        listed = {path for several in paths.values() for path in several}
        texts = texts_of(listed, storages, report)
        with_history = [path for path, text in texts.items() if text is not None]
        with ThreadPoolExecutor(REQUESTS) as threads:
            found = threads.map(lambda path: _generation(storages, path), with_history)
            generations = dict(zip(with_history, found, strict=True))
        histories = {}
        for key, several in paths.items():
            pyramids = [(one, generations.get(one, "")) for one in several]
            history = history_of(pyramids, texts, report)
            if history is not None:
                published = history.published[-_PUBLICATIONS:]
                histories[key] = replace(history, parts=(), published=published)
        return histories


def value_layers(layers: Iterable[Layer], catalogue: Catalogue) -> Mapping[str, Layer]:
    """Return the values of layers by their keys, as feeds describe them; nothing is opened."""
    found = {}
    for layer in layers:
        table: Any = catalogue.variants.get(layer.id)
        for one in () if table is None else table.variants():
            shown = ", ".join(one.at.values())
            title = one.changes.get("title") or f"{layer.title} ({shown})"
            found[one.key] = replace(layer, key=one.key, at=one.at, title=title)
    return found


def _generation(storages: StoragePool, path: str) -> str:
    """Return the generation of the pyramid of a descriptor; empty if it cannot be read."""
    try:
        return digest_of(json.loads(storages.read_full(ResourcePath.parse(path))))
    except (MastabaError, ValueError, RecursionError) as error:
        logger.warning("the descriptor %s cannot be read: %s", path, error)
        return ""
