"""Stacks: documents that list the pyramids of a series (time.md section 1.2).

``NAME.stack.json`` lists the published pyramids beside it whose names match a template, with the
values in the names, their generations and tile limits. ``.stacks.json`` remembers the template of
each stack, so that each publication of one of its pyramids can renew its entry without a listing.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any, Final

from mastaba.api.catalogue import digest_of
from mastaba.api.documents import is_beside_pyramid
from mastaba_build.errors import LockedError, PlanError, VerificationError
from mastaba_build.output.lock import locked
from mastaba_build.output.storage import OutputStore
from mastaba_documents.names import documents_before, numbers_in

Row = dict[str, Any]

_TEMPLATES: Final = ".stacks.json"
_LOCK: Final = ".stacks.lock"
_PLACEHOLDER: Final = re.compile(r"\{([^{}]*)\}")
_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,31}")
_TIME: Final = "[0-9TZ:.+-]{1,40}"
_GRAMMARS: Final = {
    "time": _TIME,
    "reference_time": _TIME,
    "elevation": r"[+-]?[0-9]{1,30}(?:\.[0-9]{1,30})?",
}
_TEXT: Final = "[^/]{1,200}"
_EDITED: Final = ("title", "final")
_WAIT: Final = 60.0
"""Seconds in which a publication waits for others that write stacks."""


def write_stack(
    store: OutputStore, name: str, template: str, title: str = "", final: tuple[str, ...] = ()
) -> int:
    """Write a stack, or write it again; return the number of its pyramids.

    Titles and ``final`` of pyramids that it listed before stay.

    Args:
        template: name of a descriptor with ``{dimension}`` in place of a value.
        title: of each pyramid, with placeholders as in the template; empty to keep those it has.
        final: values, or names of descriptors, of pyramids that will not change.

    Raises:
        PlanError: the template cannot be used, or nothing matches it.
        VerificationError: a descriptor or the former stack is damaged.
        LockedError: another process writes stacks, for a minute.
        OutputError: a document cannot be read or written.
    """
    pattern = _pattern(template)
    unknown = set(_PLACEHOLDER.findall(title)) - pattern.groupindex.keys()
    if unknown:
        raise PlanError(f"the title has {{{min(unknown)}}}, which is not in the template")
    with _alone(store):
        templates = _templates(store)
        before = {row["path"]: row for row in _rows(store, name)}
        rows = []
        start = template.partition("{")[0]
        names = set(store.names(start))
        names.update(one for one in documents_before(start) if store.stat(one) is not None)
        numbers_of = numbers_in(store.read_if_exists)
        for path in sorted(names):
            found = pattern.fullmatch(path)
            if found is None or is_beside_pyramid(path, names, numbers_of):
                continue
            kept = {key: before[path][key] for key in _EDITED if key in before.get(path, ())}
            at = found.groupdict()
            if title:
                kept["title"] = _PLACEHOLDER.sub(lambda one, at=at: at[one[1]], title)  # type: ignore[misc]
            if {path, *at.values()} & set(final):
                kept["final"] = True
            row = _row(store, path, at)
            if row is not None:
                rows.append(row | kept)
        if not rows:
            raise PlanError(f"no descriptor of a pyramid matches {template}")
        _write(store, _file(name), {"variants": rows})
        _write(store, _TEMPLATES, {"stacks": {**templates, name: template}})
    return len(rows)


def renew_stacks(store: OutputStore, name: str) -> None:
    """Renew the entry of a published pyramid in the stacks beside it that list it, or will.

    Raises:
        VerificationError: a stack or the descriptor is damaged.
        LockedError: another process writes stacks, for a minute.
        OutputError: a document cannot be read or written.
    """
    path = f"{name}.json"
    if not any(_pattern(one).fullmatch(path) for one in _templates(store).values()):
        return
    with _alone(store):
        for stack, template in _templates(store).items():
            found = _pattern(template).fullmatch(path)
            row = None if found is None else _row(store, path, found.groupdict())
            if row is None:
                continue
            rows = {one["path"]: one for one in _rows(store, stack)}
            kept = {key: rows[path][key] for key in _EDITED if key in rows.get(path, ())}
            rows[path] = row | kept
            _write(store, _file(stack), {"variants": [rows[one] for one in sorted(rows)]})


def _pattern(template: str) -> re.Pattern[str]:
    """Return what matches the names of descriptors, with a group for each dimension."""
    names = _PLACEHOLDER.findall(template)
    if not names or len(set(names)) < len(names) or not all(map(_NAME.fullmatch, names)):
        raise PlanError(f"{template} must have each dimension once, such as {{time}}")
    if "/" in template or not template.endswith(".json"):
        raise PlanError(f"{template} must be the name of descriptors beside the stack, NAME.json")
    pieces = _PLACEHOLDER.split(template)
    return re.compile(
        "".join(
            f"(?P<{piece}>{_GRAMMARS.get(piece, _TEXT)})" if number % 2 else re.escape(piece)
            for number, piece in enumerate(pieces)
        )
    )


def _row(store: OutputStore, path: str, at: Mapping[str, str]) -> Row | None:
    """Return the entry of a pyramid; None if a document is no descriptor of a pyramid."""
    document = _read(store, path)
    levels = document.get("levels")
    if not isinstance(levels, list) or "tile_matrix_set" not in document:
        return None
    try:
        limits = {one["id"]: one["tile_limits"] for one in levels}
        found = {
            key: [one["min_row"], one["max_row"], one["min_col"], one["max_col"]]
            for key, one in limits.items()
        }
    except (KeyError, TypeError):
        raise VerificationError(f"{path}: a level has no tile limits") from None
    return {"at": dict(at), "path": path, "generation": digest_of(document), "levels": found}


def _file(name: str) -> str:
    return f"{name}.stack.json"


def _rows(store: OutputStore, name: str) -> list[Row]:
    """Return the entries of a stack; none if it does not exist."""
    rows = _read(store, _file(name)).get("variants", [])
    if isinstance(rows, list) and all(isinstance(one, dict) and "path" in one for one in rows):
        return rows
    raise VerificationError(f"{_file(name)} is damaged; delete it and write it again")


def _templates(store: OutputStore) -> dict[str, str]:
    """Return the templates of the stacks of a place that exist, by their names."""
    found = _read(store, _TEMPLATES).get("stacks", {})
    if not isinstance(found, dict):
        raise VerificationError(f"{_TEMPLATES} is damaged; delete it and write the stacks again")
    return {
        name: template for name, template in found.items() if store.stat(_file(name)) is not None
    }


def _read(store: OutputStore, key: str) -> dict[str, Any]:
    data = store.read_if_exists(key)
    try:
        found = json.loads(data or b"{}")
    except ValueError as error:
        raise VerificationError(f"{key}: {error}") from None
    if not isinstance(found, dict):
        raise VerificationError(f"{key} is not an object of JSON")
    return found


def _write(store: OutputStore, key: str, document: Mapping[str, Any]) -> None:
    store.write(key, (json.dumps(document, indent=2, ensure_ascii=False) + "\n").encode())


@contextmanager
def _alone(store: OutputStore) -> Iterator[None]:
    """Hold the lock of the stacks of a place: pyramids may be published at the same time."""
    end = time.monotonic() + _WAIT
    with ExitStack() as stack:
        while True:
            try:
                stack.enter_context(locked(store, _LOCK))
                break
            except LockedError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.2)
        yield
