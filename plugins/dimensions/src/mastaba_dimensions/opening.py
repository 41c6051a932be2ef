"""Opening variants: once in each process, and only what all processes know."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

from mastaba.api.catalogue import Layer, digest_of, geographic_bbox, pyramid_bbox
from mastaba.api.dimensions import VariantSource
from mastaba.api.documents import UnusableError
from mastaba.errors import (
    ConfigurationError,
    MastabaError,
    NoSuchValueError,
    OverloadedError,
)
from mastaba_dimensions.extent import widened
from mastaba_dimensions.listing import Row
from mastaba_server.threads.recent import Recent

logger = logging.getLogger("mastaba")

_WAIT: Final = 2.0
"""Seconds for which a request waits until all processes know a replaced variant."""
_REST: Final = 5.0
"""Seconds for which a variant that cannot be opened is not tried again."""
_SILENCE: Final = 60.0
"""Seconds between two log lines about the variants of a layer."""
_OTHER: Final = "its pyramid is another one than the layer lists"
_DEPTH: Final = 3
"""How often a variant may be replaced while a request waits for it."""


@dataclass(frozen=True, slots=True)
class Variant:
    """A layer at one combination of values, not opened yet.

    Attributes:
        key: qualified name, ``ORTHO;time=1950``.
        at: text of the value of each dimension.
        pyramids: entries, as ``pyramids`` of a layer descriptor.
        stamp: generation of the pyramid, or digest of the versions of its documents, as listed.
        changes: attributes in which the layer differs from the default, such as ``title``.
        interval: first and last instant of the time.
    """

    key: str
    at: Mapping[str, str]
    pyramids: Sequence[Mapping[str, Any]]
    stamp: str
    changes: Mapping[str, Any] = field(default_factory=dict)
    interval: tuple[str, str] | None = None


class ReplacedError(Exception):
    """The pyramids of a variant are not those that were listed."""


class Opener:
    """What opens the variants of one layer.

    Args:
        source: of the layer.
        layer: with its dimensions, and the extent of all variants if that is known.

    Attributes:
        loader: what opens variants.
    """

    def __init__(self, source: VariantSource, layer: Layer) -> None:
        self.loader = source.loader
        self._bbox = source.document.get("bbox")
        self._file = source.file
        self._opened = source.opened
        self._layer = layer
        # What all variants share; another table of the layer may have the same.
        self._digest = self._of_all = digest_of(
            source.layer.generation, sorted(layer.tile_limits.items()), layer.id
        )
        self._lock = threading.Lock()
        self._opening: dict[Any, threading.Lock] = {}
        # When opening a variant failed last; None if it has succeeded since.
        self._failed: Recent[float | None] = Recent(512)
        self._logged = -_SILENCE
        self._renewal: Renewal | None = None

    def moved(self, loader: Any) -> Opener:
        """Return an opener with another loader."""
        other = copy(self)
        other.loader = loader
        return other

    def around(self, layer: Layer) -> Opener:
        """Return an opener for some of the variants, whose documents show another layer."""
        other = copy(self)
        other._layer = layer
        other._digest = digest_of(layer.generation, sorted(layer.tile_limits.items()), layer.id)
        return other

    def alone(self, layer: Layer) -> Layer:
        """Return a layer with the extent of its own pyramid, if its descriptor sets none."""
        if self._bbox:
            return layer
        native = pyramid_bbox(layer.pyramid)
        crs = layer.pyramid.tile_matrix_set.crs
        return replace(layer, native_bbox=native, geographic_bbox=geographic_bbox(native, crs))

    def widened(self, layer: Layer, rows: Iterable[Row]) -> Layer:
        """Return a layer with the extent of variants; see the function of this name."""
        return widened(layer, rows, self._bbox)

    def get(self, variant: Variant, refresh: Callable[[str], Any] | None, depth: int = 0) -> Layer:
        """Return an open variant.

        Args:
            refresh: loads the layer again in all processes, and returns its new table; None if
                nothing can.

        Raises:
            OverloadedError: it cannot be opened at the moment.
            NoSuchValueError: it has been removed.
        """
        try:
            return self.listed(variant)
        except ReplacedError as replaced:
            # If it turns out to be as it was listed, this is why it cannot be opened.
            reason = str(replaced.__cause__ or _OTHER)
        if refresh is None or depth == _DEPTH:
            raise _unavailable()
        with self._lock:
            renewal, is_new = self._renewal, False
            if renewal is None or renewal.has_failed:
                renewal, is_new = Renewal(partial(refresh, self._layer.id)), True
                self._renewal = renewal
        table = renewal.result(_WAIT)
        if table is None:
            if renewal.has_failed:
                self._rest(variant, "it was replaced, and the layer cannot be loaded again")
            raise _unavailable()
        found = table.find(variant.key)
        if found is None:
            raise NoSuchValueError("the layer has no such value any more", next(iter(variant.at)))
        # An earlier table may be older than this replacement; the next one then is not.
        if found.stamp == variant.stamp and (is_new or table.opener is self):
            # Otherwise each request would load the layer again.
            table.opener._rest(found, reason)
            raise _unavailable()
        opened: Layer = table.opener.get(found, refresh, depth + 1)
        return opened

    def listed(self, variant: Variant) -> Layer:
        """Return an open variant as it is listed.

        Raises:
            ReplacedError: it was replaced after that.
            OverloadedError: it cannot be opened at the moment.
        """
        key = variant.key, variant.stamp, self._of_all, self._digest
        found = self._opened.get(key)
        if found is not None:
            return found
        with self._lock:
            opening = self._opening.setdefault(key, threading.Lock())
        # Requests for other variants do not wait until this one is open.
        with opening:
            try:
                return self._opened.get(key) or self._opened.add(key, self._attempt(variant))
            finally:
                self._opening.pop(key, None)

    def _attempt(self, variant: Variant) -> Layer:
        failed = self._failed.get((variant.key, variant.stamp))
        if failed is not None and time.monotonic() - failed < _REST:
            raise _unavailable()
        try:
            layer = self.read(variant)
        except (MastabaError, UnusableError, ValueError) as error:
            if self._is_replaced(variant):
                raise ReplacedError(variant.key) from error
            self._rest(variant, str(error))
            raise _unavailable() from error
        if failed is not None:
            self._failed.add((variant.key, variant.stamp), None)
        return layer

    def _rest(self, variant: Variant, reason: str) -> None:
        """Do not try to open a variant for some time, and log why."""
        now = time.monotonic()
        self._failed.add((variant.key, variant.stamp), now)
        if now - self._logged >= _SILENCE:
            self._logged = now
            logger.error("%s cannot be opened: %s", variant.key, reason)

    def _is_replaced(self, variant: Variant) -> bool:
        """Return whether documents of a variant that cannot be read have changed or vanished."""
        try:
            return bool(self.loader.again().stamp_of(variant.pyramids) != variant.stamp)
        except (MastabaError, ValueError):
            return False

    def states(self, variants: Iterable[Variant]) -> dict[str, str]:
        """Return what variants are in this process, by their keys; see `VariantTable.states`."""
        # Also those that only views with fewer values have opened.
        opened = {key[:3] for key in self._opened}
        found = {}
        for one in variants:
            if (one.key, one.stamp, self._of_all) in opened:
                found[one.key] = "open"
            else:
                has_failed = self._failed.get((one.key, one.stamp)) is not None
                found[one.key] = "faulty" if has_failed else "known"
        return found

    def read(self, variant: Variant) -> Layer:
        """Open a variant, which is not kept.

        Raises:
            ReplacedError: it was replaced after it was listed.
            ConfigurationError, MastabaError, ValueError: it cannot be opened.
        """
        loader, base = self.loader.again(), self._layer
        file = f"{self._file} ({variant.key})"
        try:
            layer = loader.variant(base, variant.pyramids, self._bbox, file, variant.key)
        except UnusableError:
            raise ConfigurationError(loader.reader.faults.errors) from None
        if variant.stamp not in (layer.pyramid.generation, loader.stamp_of(variant.pyramids)):
            raise ReplacedError(variant.key)
        # Tiles that only other variants have are missing, not outside.
        whole = base if base.tile_limits else layer
        opened: Layer = replace(
            layer,
            at=variant.at,
            interval=variant.interval,
            native_bbox=whole.native_bbox,
            geographic_bbox=whole.geographic_bbox,
            generation=digest_of(self._digest, variant.key, variant.stamp),
            **variant.changes,
        )
        return opened


class Renewal:
    """A layer that is loaded again; many requests wait for it.

    Args:
        load: loads it, and returns its table.
    """

    def __init__(self, load: Callable[[], Any]) -> None:
        self._load = load
        self._table: Any = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def has_failed(self) -> bool:
        """Whether it has ended without a table."""
        return not self._thread.is_alive() and self._table is None

    def result(self, seconds: float) -> Any:
        """Return the table, or None if there is none after some time."""
        self._thread.join(seconds)
        return self._table

    def _run(self) -> None:
        try:
            self._table = self._load()
        except Exception as error:  # noqa: BLE001 - the requests that wait for it get 503
            logger.error("a layer whose variants were replaced cannot be loaded: %s", error)


def _unavailable() -> OverloadedError:
    return OverloadedError("this value of the layer cannot be read at the moment", retry_after=1)
