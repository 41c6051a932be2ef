"""Pins: what needs a version of a pyramid, so that it is not removed."""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Callable
from typing import Any, Final

from mastaba.api.catalogue import digest_of
from mastaba_build.errors import OutputError, PlanError
from mastaba_build.output.history import INJECTED, History, read_pins, write_pins
from mastaba_build.output.lock import locked
from mastaba_build.output.storage import OutputStore
from mastaba_build.output.versions import find_version, open_history, read_record, read_versions
from mastaba_documents.times import parse_day

_NUMBERED: Final = re.compile(r"(.+)_(\d+)")
_LINKS: Final = "it links to slabs of this version"
"""Reason of the pins of other pyramids."""


def pin(
    store: OutputStore, name: str, number: int, by: str, reason: str = "", until: str | None = None
) -> None:
    """Keep a version from being removed.

    Args:
        by: who or what needs it.
        until: last day, ``yyyy-mm-dd``; None for ever.

    Raises:
        BuildError: as in `log`, or there is no such version.
    """
    if until is not None and parse_day(until) is None:
        raise PlanError(f"--until {until!r} is not a date of the form yyyy-mm-dd")
    read_versions(store, name)
    with locked(store, f"{name}.lock"):
        generation = _generation_of(store, name, number)
        _add_pin(
            store, name, {"generation": generation, "by": by, "reason": reason, "until": until}
        )


def unpin(
    store: OutputStore, name: str, number: int, by: str | None = None
) -> tuple[int, list[str]]:
    """Remove the pins of a version, or those of one pinner.

    Args:
        by: the pinner. None for all but pyramids that link to the version: without its slabs, they
            would have holes. Their pins are removed by name only.

    Returns:
        the number of removed pins, and the pyramids that link to the version, if their pins stay.

    Raises:
        BuildError: as in `log`, or there is no such version.
    """
    read_versions(store, name)
    with locked(store, f"{name}.lock"):
        versions = read_versions(store, name)
        find_version(name, versions, number)
        entry = open_history(store, name, versions).versions[str(number)]
        pins = read_pins(store, name)
        of_version = [one for one in pins if one["generation"] in addressed(entry)]
        if by is None:
            removed = [one for one in of_version if one["reason"] != _LINKS]
        else:
            removed = [one for one in of_version if one["by"] == by]
        if removed:
            write_pins(store, name, [one for one in pins if one not in removed])
        linking = [one["by"] for one in of_version if one["reason"] == _LINKS]
        return len(removed), linking if by is None else []


def pin_source(store: OutputStore, key: str, by: str, warn: Callable[[str], object]) -> None:
    """Pin the version whose descriptor another pyramid links to.

    Pyramids of other tools have no versions, and are left out.

    Args:
        store: that contains the descriptor.
        key: of the descriptor.
        by: path of the pyramid that links.
        warn: called with a text if the pin cannot be written.

    Raises:
        LockedError: a builder is changing the pyramid.
        BuildError: a document is damaged.
    """
    stem = key.removesuffix(".json")
    folder, base = posixpath.split(stem)
    numbered = _NUMBERED.fullmatch(base)
    name = stem
    if numbered and store.stat(f"{stem}.history.json") is None:
        former = posixpath.join(folder, numbered[1])
        history = History.read(store, former)
        # A pyramid ``ortho_1950`` may be beside one called ``ortho``.
        if history is not None and numbered[2] in history.versions:
            name = former
    if read_record(store, stem) is None:
        return
    try:
        with locked(store, f"{name}.lock"):
            generation = digest_of(json.loads(store.read(key)))
            _add_pin(
                store, name, {"generation": generation, "by": by, "reason": _LINKS, "until": None}
            )
    except OutputError as error:
        warn(
            f"{name}.pins.json cannot be written: {error}; do not prune this version while {by} is "
            "in use"
        )


def require_unpinned(store: OutputStore, name: str) -> None:
    """Check that nothing needs a pyramid that is to be replaced.

    Raises:
        PlanError: a version is pinned.
        VerificationError: the pins are damaged.
    """
    for one in read_pins(store, name):
        raise PlanError(f"a version of {name} is pinned by {pinner_of(one)}; unpin it first")


def pinner_of(pin: dict[str, Any]) -> str:
    """Return what needs a version, why and until when, for people."""
    text = str(pin["by"])
    if pin["reason"]:
        text += f" ({pin['reason']})"
    return text + (f" until {pin['until']}" if pin["until"] else "")


def addressed(entry: dict[str, Any]) -> list[str]:
    """Return the generations under which the slabs of a version are addressed."""
    former = [one["generation"] for one in entry.get("former", ()) if one["state"] != INJECTED]
    return [entry["generation"], *former]


def _add_pin(store: OutputStore, name: str, pin: dict[str, Any]) -> None:
    same = pin["generation"], pin["by"]
    others = [one for one in read_pins(store, name) if (one["generation"], one["by"]) != same]
    write_pins(store, name, [*others, pin])


def _generation_of(store: OutputStore, name: str, number: int) -> str:
    versions = read_versions(store, name)
    find_version(name, versions, number)
    return str(open_history(store, name, versions).versions[str(number)]["generation"])
