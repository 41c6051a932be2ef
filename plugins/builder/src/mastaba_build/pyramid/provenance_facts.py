"""Set facts of the sources of a pyramid from a table."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace as changed
from pathlib import Path
from typing import Any

from mastaba_build.config.dates import dates
from mastaba_build.errors import PlanError
from mastaba_build.output.history import Note
from mastaba_build.output.lock import locked
from mastaba_build.output.source_records import SUMS, read_source_record
from mastaba_build.output.storage import OutputStore
from mastaba_build.output.versions import (
    Version,
    keep_documents,
    open_history,
    publish_version,
    published,
    read_roots,
    read_versions,
    write_versions,
)
from mastaba_build.pyramid.provenance import (
    LIST,
    PYRAMID,
    TABLE,
    ordered,
    read_table,
    table_text,
    text_of,
)
from mastaba_build.sources.facts import overlay
from mastaba_server.web.parameters import whole_number

_TEXTS = ("id", "title", "licence", "href", "stac", "group")
_NUMBERS = ("gsd", "accuracy")


def set_facts(store: OutputStore, name: str, table: Path) -> int:
    """Publish a version whose table of sources has other facts, and return its number.

    It has the slabs of the published one.

    Args:
        table: CSV with a column ``number`` or ``id``, and columns of the table of sources.

    Raises:
        BuildError: the pyramid has no table, or the file or a document cannot be used.
    """
    read_versions(store, name)  # nothing is written if the pyramid does not exist
    with locked(store, f"{name}.lock"):
        versions = read_versions(store, name)
        current = published(store, name, versions)
        record = read_source_record(store, name)
        if record is None:
            raise PlanError(f"{name} has no table of sources; build it with --provenance")
        rows = read_table(store, name)["sources"]
        overrides = {key: dict(one) for key, one in record.overrides.items()}
        for number, facts in _facts_of_csv(table, rows):
            overlay(overrides.setdefault(str(number), {}), facts)
        for row in rows:
            overlay(row, overrides.get(str(row["number"]), {}))
        if store.stat(f"{name}.versions.json") is None:
            keep_documents(store, name, current.number)
        number = versions[-1].number + 1
        stem = f"{name}_{number}"
        descriptor = json.loads(store.read(f"{name}.json"))
        descriptor.pop("update", None)
        descriptor["provenance"] = f"{stem}{TABLE}"
        document = {"version": 1, "pyramid": f"{stem}{PYRAMID}", "next": record.next}
        texts = {
            SUMS: changed(record, overrides=overrides).text(),
            LIST: store.read(f"{name}{LIST}"),
            PYRAMID: store.read(f"{name}{PYRAMID}"),
            TABLE: table_text({**document, "sources": list(map(ordered, rows))}),
            ".list": store.read(f"{name}.list"),
            ".build.json": store.read(f"{name}.build.json"),
            ".json": text_of(descriptor),
        }
        for end, text in texts.items():
            store.write(f"{stem}{end}", text)
        versions = [*versions, Version(number, current.root, current.plan)]
        write_versions(store, name, versions, read_roots(store, name))
        history = open_history(store, name, versions)
        publish_version(store, name, number, Note("provenance"), history)
        return number


def _facts_of_csv(
    path: Path, rows: Sequence[Mapping[str, Any]]
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the numbers of sources, and their facts in a CSV file."""
    by_id: dict[str, list[int]] = {}
    for row in rows:
        by_id.setdefault(str(row["id"]), []).append(row["number"])
    known = {row["number"] for row in rows}
    try:
        with path.open(encoding="utf-8-sig", newline="") as stream:
            lines = list(csv.DictReader(stream))
    except (OSError, ValueError, csv.Error) as error:
        raise PlanError(f"{path}: cannot be read: {error}") from None
    for line, values in enumerate(lines, 2):
        try:
            facts = _facts_of_line({key: (value or "").strip() for key, value in values.items()})
        except (ValueError, AttributeError) as error:
            raise PlanError(f"{path}: line {line}: {error}") from None
        if values.get("number"):
            numbers = [] if (number := whole_number(values["number"])) is None else [number]
        else:
            numbers = by_id.get(str(values.get("id", "")), [])
        if not numbers or not known.issuperset(numbers):
            raise PlanError(f"{path}: line {line}: names no source of the table")
        yield from ((number, facts) for number in numbers)


def _facts_of_line(values: Mapping[str, str]) -> dict[str, Any]:
    facts: dict[str, Any] = {}
    further: dict[str, str] = {}
    for key, value in values.items():
        if not value or key in ("number", "id", "start", "end", "attribution_url"):
            continue
        if key in _TEXTS:
            facts[key] = value
        elif key in _NUMBERS:
            facts[key] = float(value) if key == "gsd" else _number_or_text(value)
        elif key == "attribution":
            url = values.get("attribution_url")
            facts[key] = {"title": value, **({"url": url} if url else {})}
        elif key != "date":
            further[key] = value
    start, end = values.get("start"), values.get("end")
    written = f"{start}/{end}" if start and end else values.get("date", "")
    if written:
        found = dates(written)
        if not found:
            raise ValueError(f"{written!r} is not a date such as 2021-05-03")
        facts.update(found)
    if further:
        facts["fields"] = further
    return facts


def _number_or_text(value: str) -> float | str:
    try:
        return float(value)
    except ValueError:
        return value
