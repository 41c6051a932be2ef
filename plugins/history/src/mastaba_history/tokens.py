"""Names of versions of layers: ``ORTHO~4f0c1d2e3a4b`` (time.md section 4.2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from mastaba.api.catalogue import digest_of
from mastaba.api.documents import UnusableError
from mastaba.api.web import printable
from mastaba.errors import UnknownNameError
from mastaba_history.instants import is_instant, parse_instant, rfc3339
from mastaba_history.layers import sibling, state_of
from mastaba_history.records import KEPT
from mastaba_ows.errors import GoneError
from mastaba_server.errors import MovedError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mastaba.api.catalogue import Layer
    from mastaba_history.layers import LayerHistory
    from mastaba_history.records import Version

DRAWING: Final = 1
"""Raise it when a kernel or an encoder gives other bytes than before."""

IMMUTABLE: Final = "public, max-age=31536000, immutable"
DAY: Final = "max-age=86400"
_CHECKED: Final = "no-cache"
_DIGITS: Final = 6
_OTHER: Final = "0" * _DIGITS
"""Stands for all digests that do not fit."""


@dataclass(frozen=True, slots=True)
class Kept:
    """A version of a layer that is kept, not opened yet.

    Attributes:
        key: name that means it, the same for all names that do.
        pyramids: entries, as ``pyramids`` of a layer descriptor.
        generation: of its pyramids; what is opened must have it.
        changes: attributes in which the layer differs from the present one.
    """

    key: str
    pyramids: Sequence[Mapping[str, Any]]
    generation: str
    changes: Mapping[str, Any]

    def open(self, layer: Layer, open_variant: Callable[..., Layer] | None) -> Layer:
        """Open it; its documents are read.

        Args:
            layer: the layer or variant as published now.
            open_variant: of the layer.

        Raises:
            GoneError: it has been removed or replaced since the history was read.
            StorageError: a storage does not answer.
        """
        if open_variant is None:
            raise UnknownNameError(f"the layer {layer.id} has no versions at the moment", "layer")
        try:
            opened = open_variant(self.pyramids, self.key)
        except UnusableError:
            raise GoneError(f"{self.key} can no longer be read", "layer") from None
        if opened.pyramid.generation != self.generation:
            raise GoneError(f"{self.key} has been replaced", "layer")
        generation = digest_of(layer.generation, self.key)
        changes = {**self.changes, "generation": generation}
        if not layer.surrogate_keys:
            changes["surrogate_keys"] = ()
        elif changes["missing_headers"]:
            # A purge of versions removes these too.
            keys = "Surrogate-Key", " ".join(changes["surrogate_keys"])
            changes["missing_headers"] = (*changes["missing_headers"], keys)
        changes |= {"at": layer.at, "interval": layer.interval}
        return replace(opened, **changes)


def drawing_digest(layer: Layer) -> str:
    """Return six hexadecimal digits that depend on how a layer is drawn, not on its pyramids."""
    sets = [
        (one.id, one.crs.code, tuple(one.matrices.values()))
        for one in (layer.pyramid.tile_matrix_set, *layer.extra_tile_matrix_sets)
    ]
    # The box that the descriptor of the layer sets; that of the data changes with each version.
    box = getattr(layer.open_variant, "keywords", {}).get("bbox")
    return digest_of(DRAWING, layer.styles, layer.resampling, sets, box)[:_DIGITS]


def require_kept(
    layer: Layer, history: LayerHistory, token: str, versions: Sequence[Version]
) -> None:
    """Check that the slabs of versions still exist.

    Raises:
        GoneError: they do not; the message has the state and the nearest later version.
    """
    state = state_of(versions)
    if state != KEPT:
        later = history.later(token)
        text = f"; the next version is {later.token}" if later else ""
        raise GoneError(f"the version {token} of {layer.id} is {state}{text}", "layer")


def version_of(layer: Layer, history: LayerHistory, token: str) -> Kept:
    """Return the version that a token means, to be opened; nothing is read.

    With a fitting digest behind a dash, all that it shows is immutable. Without one, stored tiles
    are; what is drawn may change with the styles.

    Args:
        layer: as published now.
        token: ``G``, ``G-d``, or an instant.

    Raises:
        UnknownNameError: there is no such version.
        GoneError: it has been removed.
        MovedError: the token is an instant, and means another one.
    """
    if is_instant(token):
        try:
            published = history.at(parse_instant(token))
        except ValueError as error:
            name = printable(f"{layer.id}~{token}")
            raise UnknownNameError(f"there is no layer {name}", "layer") from error
        if published is None:
            first = history.published[0]
            text = f"{layer.id} was first published {rfc3339(first.since)}, as {first.token}"
            raise UnknownNameError(text, "layer")
        raise MovedError(f"~{token}", f"~{published.token}")
    generations, dash, drawing = token.partition("-")
    versions = history.versions(generations)
    if versions is None or (dash and len(drawing) != _DIGITS):
        raise UnknownNameError(f"the layer {layer.id} has no version {token[:100]!r}", "layer")
    require_kept(layer, history, generations, versions)
    is_drawn_so = bool(dash) and drawing == drawing_digest(layer)
    keys = [f"gen-{one.generation}" for one in versions]
    changes = {
        "cache_control": IMMUTABLE if is_drawn_so else _CHECKED,
        "stored_cache_control": None if dash else IMMUTABLE,
        # Slabs can come back after damage.
        "missing_headers": (("Cache-Control", DAY),) if is_drawn_so or not dash else (),
        "surrogate_keys": (*keys, f"base-{quote(layer.id, '')}"),
    }
    entries = [
        {
            "path": str(sibling(path, f"_{version.number}.json")),
            **({"bottom_level": part.bottom_level} if part.bottom_level else {}),
            **({"top_level": part.top_level} if part.top_level else {}),
        }
        for (path, _), version, part in zip(
            history.parts, versions, layer.pyramid.parts, strict=True
        )
    ]
    present = [version.descriptor for version in versions]
    generation = present[0] if len(present) == 1 else digest_of(present)
    # Clients may write any digest: those that do not fit are one version.
    name = f"{layer.key}~{generations}{dash}{drawing if is_drawn_so else dash and _OTHER}"
    return Kept(name, entries, generation, changes)
