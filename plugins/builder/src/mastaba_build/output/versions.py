"""Versions of a pyramid: documents beside each other, one of which is published.

The first version of ``ORTHO`` has its slabs below ``ORTHO``, the next one below ``ORTHO_2``. When
there are several, each has its own descriptor, list and build record (``ORTHO_1.json``,
``ORTHO_2.json``, …), and ``ORTHO.versions.json`` lists them. ``ORTHO.json`` is a copy of one of
these descriptors; to publish a version is to replace this one object.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple

from mastaba_build.errors import PlanError, VerificationError
from mastaba_build.output.records import Record
from mastaba_build.output.storage import OutputStore

DOCUMENTS = (".list", ".build.json", ".json")
"""Ends of the names of the documents of a version; the descriptor is last."""
FURTHER = (".sources.slabs", "_sources.list", "_sources.json", ".sources.json")
"""Ends of the names of documents that only versions with source numbers have."""


class Version(NamedTuple):
    """A version.

    Attributes:
        number: from 1.
        root: directory or prefix of its slabs below the output.
        plan: identity of its plan.
    """

    number: int
    root: str
    plan: str


def read_record(store: OutputStore, name: str) -> Record | None:
    """Return the build record of a name; None if there is none.

    Raises:
        VerificationError: it is damaged.
        OutputError: it cannot be read.
    """
    data = store.read_if_exists(f"{name}.build.json")
    return None if data is None else Record.parse(data, f"{name}.build.json")


def read_versions(store: OutputStore, name: str) -> list[Version]:
    """Return all versions, the oldest first; one if the pyramid was never updated.

    Raises:
        PlanError: the pyramid does not exist, or was not made by this program.
        VerificationError: a document is damaged.
        OutputError: a document cannot be read.
    """
    data = store.read_if_exists(f"{name}.versions.json")
    if data is None:
        record = read_record(store, name)
        if record is None or store.stat(f"{name}.json") is None:
            raise PlanError(f"{name} does not exist, or has no build record {name}.build.json")
        return [Version(1, record.root, record.plan)]
    try:
        return [Version(**values) for values in json.loads(data)["versions"]]
    except (ValueError, KeyError, TypeError) as error:
        raise VerificationError(f"{name}.versions.json cannot be used: {error}") from None


def published(store: OutputStore, name: str, versions: Sequence[Version]) -> Version:
    """Return the version whose descriptor is published.

    Raises:
        VerificationError: the descriptor is that of no version.
        OutputError: a document cannot be read.
    """
    if store.stat(f"{name}.versions.json") is None:
        return versions[0]
    current = store.read_if_exists(f"{name}.json")
    for version in reversed(versions):
        if store.read_if_exists(f"{name}_{version.number}.json") == current:
            return version
    raise VerificationError(f"{name}.json is not the descriptor of a version; use rollback")


def read_roots(store: OutputStore, name: str) -> list[str]:
    """Return the roots of removed versions that still contain slabs of others.

    Raises:
        OutputError: the list of versions cannot be read.
    """
    data = store.read_if_exists(f"{name}.versions.json")
    return [] if data is None else list(json.loads(data).get("roots", ()))


def write_versions(
    store: OutputStore, name: str, versions: Sequence[Version], roots: Sequence[str] = ()
) -> None:
    """Write the list of versions. Raises OutputError.

    Args:
        roots: as in `read_roots`.
    """
    document = {
        "versions": [version._asdict() for version in versions],
        **({"roots": list(roots)} if roots else {}),
    }
    store.write(f"{name}.versions.json", (json.dumps(document, indent=2) + "\n").encode())


def keep_documents(store: OutputStore, name: str, number: int) -> None:
    """Copy the documents of a pyramid that becomes one of several versions. Raises OutputError."""
    _copy(store, name, f"{name}_{number}")


def publish_version(store: OutputStore, name: str, number: int) -> None:
    """Publish a version whose documents exist. Raises OutputError."""
    _copy(store, f"{name}_{number}", name)


def _copy(store: OutputStore, stem: str, to: str) -> None:
    for end in FURTHER:
        data = store.read_if_exists(f"{stem}{end}")
        if data is not None:
            store.write(f"{to}{end}", data)
    for end in DOCUMENTS:
        store.write(f"{to}{end}", store.read(f"{stem}{end}"))
    for end in FURTHER:
        # Of the version before, which had source numbers.
        if store.stat(f"{stem}{end}") is None:
            store.delete(f"{to}{end}")
