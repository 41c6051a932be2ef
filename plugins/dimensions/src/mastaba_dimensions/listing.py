"""The variants of a layer as its descriptor lists them: an array, a stack or a template."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import chain, islice
from typing import Any, Final

from mastaba.api.dimensions import VariantSource
from mastaba.api.documents import Faults, is_beside_pyramid, parse_document
from mastaba.errors import MastabaError, reason_of
from mastaba_documents.names import documents_before, numbers_in
from mastaba_ows.dimensions import Dimension

Row = dict[str, Any]
"""A variant as JSON: ``at``, ``pyramids``, ``stamp``, and perhaps ``levels``, ``title``,
``attribution``, ``final``, ``cache_control``, ``provenance``."""

_MOST: Final = 100_000
_MOST_KEYS: Final = 200_000
"""Objects that are listed for a template."""
_READS: Final = 16
_KEPT: Final = ("title", "attribution", "final", "cache_control", "provenance", "levels")
_GRAMMARS: Final = {
    "time": "[0-9TZ:.+-]{1,40}",
    "number": r"[+-]?[0-9]{1,30}(?:\.[0-9]{1,30})?",
    "text": "[^/]{1,200}",
}


def rows_of(source: VariantSource, dimensions: Iterable[Dimension]) -> list[Row]:
    """Return the variants that a descriptor lists, with their stamps."""
    variants = source.document.get("variants")
    if variants is None:
        return []
    if isinstance(variants, list):
        return list(_stamped(source, variants, "$.variants"))
    if len(variants.keys() - {"watch"}) != 1:
        source.refuse("$.variants", "names no stack and no template, or both", "name one of them")
    if "stack" in variants:
        return _stack(source, beside(variants["stack"], source.file))
    template = beside(variants["template"], source.file)
    return list(_stamped(source, _matching(source, template, dimensions), "$.variants.template"))


def stack_of(descriptor: Mapping[str, Any], file: str) -> str | None:
    """Return the path of the stack that the descriptor of a layer names, or None.

    Args:
        descriptor: not validated.
        file: where it was read.
    """
    variants = descriptor.get("variants")
    path = variants.get("stack") if isinstance(variants, dict) else None
    return beside(path, file) if isinstance(path, str) else None


def beside(path: str, file: str) -> str:
    """Return a path that begins at a document."""
    if "://" in path or os.path.isabs(path):
        return path
    directory, slash, _ = file.rpartition("/")
    return f"{directory}{slash}{path}"


def _stamped(source: VariantSource, rows: Iterable[Mapping[str, Any]], at: str) -> Iterator[Row]:
    def stamp_of(row: Mapping[str, Any]) -> Any:
        try:
            return row.get("generation") or source.loader.stamp_of(row["pyramids"])
        except (MastabaError, ValueError) as error:
            return error

    rows = list(rows)
    is_remote = any("://" in row["pyramids"][0]["path"] for row in rows if "generation" not in row)
    with ThreadPoolExecutor(_READS) as threads:
        stamps = list((threads.map if is_remote else map)(stamp_of, rows))
    for row, stamp in zip(rows, stamps, strict=True):
        entries = row["pyramids"]
        if isinstance(stamp, Exception):
            reason = f"{entries[0]['path']} cannot be found: {stamp}"
            source.refuse(at, reason, "correct the path")
        if not isinstance(stamp, str):
            source.refuse(at, f"{stamp!r} is not a generation", "write the stack again")
        texts = {name: _text(value) for name, value in row["at"].items()}
        kept = {key: row[key] for key in _KEPT if key in row}
        yield {"at": texts, "pyramids": entries, "stamp": stamp, **kept}


def _text(value: object) -> str:
    return f"{value:.15g}" if isinstance(value, float) else str(value)


def _stack(source: VariantSource, path: str) -> list[Row]:
    faults = Faults()
    named_by = f"variants.stack of {source.file}"
    document = parse_document(_text_of(source, path, named_by), path, faults)
    found = document.get("variants") if isinstance(document, dict) else None
    if not isinstance(found, list):
        reason = faults.all[0].reason if faults.all else "has no list of variants"
        source.refuse("$.variants.stack", f"{path} {reason}", "write it with mastaba pyramid stack")
    assert isinstance(found, list)
    if len(found) > _MOST:
        source.refuse("$.variants.stack", f"{path} has too many variants", f"at most {_MOST:,}")
    for number, row in enumerate(found):
        problem = _problem_of(row)
        if problem:
            reason = f"{path}: variants[{number}] {problem}"
            source.refuse("$.variants.stack", reason, "write it with mastaba pyramid stack")
    rows = ({**row, "pyramids": [{"path": beside(row["path"], path)}]} for row in found)
    return list(_stamped(source, rows, "$.variants.stack"))


def _text_of(source: VariantSource, path: str, named_by: str) -> str:
    place = source.reader.path(path, source.file, "$.variants")
    text: str = source.reader.text(place, named_by)
    return text


def _problem_of(row: Any) -> str:
    """Return what is wrong with a variant of a stack, or an empty text."""
    if not isinstance(row, dict) or not isinstance(row.get("path"), str) or not row["path"]:
        return "has no path"
    at = row.get("at")
    if not isinstance(at, dict) or not all(
        isinstance(one, str | int | float) for one in at.values()
    ):
        return "has no values"
    levels = row.get("levels", {})
    if not isinstance(levels, dict) or not _are_limits(levels.values()):
        return "has levels that are not [min_row, max_row, min_col, max_col]"
    if not isinstance(row.get("title", ""), str):
        return "has a title that is not a text"
    return ""


def _are_limits(values: Collection[Any]) -> bool:
    """Return whether all values are tile limits; a start asks this of thousands."""
    if not values:
        return True
    if set(map(type, values)) != {list} or set(map(len, values)) != {4}:
        return False
    numbers = [*chain.from_iterable(values)]
    return set(map(type, numbers)) == {int} and min(numbers) >= 0 and max(numbers) < 2**53


def _matching(
    source: VariantSource, template: str, dimensions: Iterable[Dimension]
) -> Iterator[Row]:
    at = "$.variants.template"
    directory, slash, name = template.removeprefix("file://").rpartition("/")
    pattern = re.compile(_expression(source, name, directory, dimensions))
    if "://" in directory:
        found = sorted(_listed(source, template))
    else:
        try:
            found = sorted(os.listdir((directory + slash) or "."))
        except OSError as error:
            reason = f"{directory or '.'} cannot be read: {reason_of(error)}"
            source.refuse(at, reason, "correct the path of the template")
            return
    count, names = 0, set(found)

    def read(name: str) -> bytes | None:
        path = source.reader.path(f"{directory}{slash}{name}", source.file, at)
        try:
            data: bytes = source.reader.pool.read_full(path)
        except MastabaError:
            return None
        return data

    before: dict[str, bytes | None] = {}
    if "://" in directory:
        # Only names that begin like the template were listed.
        before = {one: read(one) for one in documents_before(name.partition("{")[0])}
        names.update(one for one, data in before.items() if data is not None)
    numbers_of = numbers_in(lambda one: before[one] if one in before else read(one))
    for file in found:
        match = pattern.fullmatch(file)
        if match is not None and not is_beside_pyramid(file, names, numbers_of):
            count += 1
            if count > _MOST:
                source.refuse(at, "more variants than can be served", f"at most {_MOST:,}")
            yield {"at": match.groupdict(), "pyramids": [{"path": f"{directory}{slash}{file}"}]}
    if not count:
        source.refuse(at, f"no file in {directory or '.'} matches {name}", "correct the template")


def _listed(source: VariantSource, template: str) -> list[str]:
    """Return the names of the objects beside a template that begin like it."""
    at, remedy = "$.variants.template", "write a stack with mastaba pyramid stack"
    path = source.reader.path(template, source.file, at)
    folder, slash, name = path.key.rpartition("/")
    start = replace(path, key=folder + slash + name.partition("{")[0])
    try:
        keys = list(islice(source.reader.pool.keys(start), _MOST_KEYS + 1))
    except MastabaError as error:
        source.refuse(at, f"{template} cannot be searched for: {error}", remedy)
        return []
    if len(keys) > _MOST_KEYS:
        reason = f"more than {_MOST_KEYS:,} objects begin like {template}, the slabs too"
        source.refuse(at, reason, remedy)
    names = (key.removeprefix(folder + slash) for key in keys)
    return [one for one in names if "/" not in one]


def _expression(
    source: VariantSource, name: str, directory: str, dimensions: Iterable[Dimension]
) -> str:
    """Return the regular expression that matches the file names of variants."""
    at = "$.variants.template"
    pattern = re.escape(name)
    for dimension in dimensions:
        if dimension.of_pixels:
            continue
        placeholder = re.escape(f"{{{dimension.name}}}")
        if pattern.count(placeholder) != 1 or f"{{{dimension.name}}}" in directory:
            reason = f"must contain {{{dimension.name}}} once, in the file name"
            source.refuse(at, reason, "correct the template")
        grammar = _GRAMMARS[dimension.kind]
        pattern = pattern.replace(placeholder, f"(?P<{dimension.name}>{grammar})")
    return pattern
