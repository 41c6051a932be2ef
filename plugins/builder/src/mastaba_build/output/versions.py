"""Versions of a pyramid: documents beside each other, one of which is published.

The first version of ``ORTHO`` has its slabs below ``ORTHO``, the next one below ``ORTHO_2``. Each
has its own descriptor, list and build record (``ORTHO_1.json``, ``ORTHO_2.json``, …); when there
are several, ``ORTHO.versions.json`` lists them. ``ORTHO.json`` is a copy of one of these
descriptors; to publish a version is to replace this one object. `output.history` says when.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

from mastaba.api.catalogue import digest_of
from mastaba_build.errors import PlanError, VerificationError
from mastaba_build.output.history import History, Note, version_entry
from mastaba_build.output.parsing import parsed
from mastaba_build.output.records import Record
from mastaba_build.output.stacks import renew_stacks
from mastaba_build.output.storage import OutputStore

DOCUMENTS = (".list", ".build.json", ".json")
"""Ends of the names of the documents of a version; the descriptor is last."""
FURTHER = (".sources.slabs", "_sources.list", "_sources.json", ".sources.json")
"""Ends of the names of documents that only versions with source numbers have."""

_NUMBER: Final = re.compile("(?:_[0-9]+)?")
"""What the root of a version has behind the name of its pyramid."""


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
        if not _is_root(name, record.root):
            reason = f"{record.root!r} is not a root of this pyramid; correct its `root`"
            raise VerificationError(f"{name}.build.json is damaged: {reason}")
        return [Version(1, record.root, record.plan)]
    try:
        versions = [Version(**values) for values in parsed(data)["versions"]]
    except (ValueError, KeyError, TypeError) as error:
        raise VerificationError(f"{name}.versions.json is damaged: {error}") from None
    for version in versions:
        reason = ""
        if tuple(map(type, version)) != (int, str, str):
            reason = f"{list(version)} is not the number, root and plan of a version"
        elif not _is_root(name, version.root):
            reason = f"{version.root!r} is not a root of this pyramid; correct the `root` of "
            reason += f"version {version.number}"
        if reason:
            raise VerificationError(f"{name}.versions.json is damaged: {reason}")
    return versions


def _is_root(name: str, root: Any) -> bool:
    """Return whether a root is that of a version: all that is below it may be removed."""
    if not isinstance(root, str) or not root.startswith(name):
        return False
    return _NUMBER.fullmatch(root.removeprefix(name)) is not None


def record_of(store: OutputStore, name: str, version: Version) -> Record:
    """Return the build record of a version.

    Raises:
        VerificationError: it is missing or damaged.
        OutputError: it cannot be read.
    """
    own = store.stat(f"{name}.versions.json") is not None
    record = read_record(store, f"{name}_{version.number}" if own else name)
    if record is None:
        raise VerificationError(f"version {version.number} of {name} has no build record")
    return record


def descriptor_of(store: OutputStore, stem: str) -> dict[str, Any]:
    """Return the descriptor of a version, ``stem.json``.

    Raises:
        VerificationError: it is missing or damaged.
        OutputError: it cannot be read.
    """
    try:
        document: dict[str, Any] = parsed(store.read(f"{stem}.json"))
    except (FileNotFoundError, ValueError) as error:
        raise VerificationError(f"{stem}.json: {error}") from None
    return document


def find_version(name: str, versions: Sequence[Version], number: int) -> Version:
    """Return the version with a number.

    Raises:
        PlanError: there is none.
    """
    for version in versions:
        if version.number == number:
            return version
    known = ", ".join(str(version.number) for version in versions)
    raise PlanError(f"{name} has no version {number}; its versions are {known}")


def published(store: OutputStore, name: str, versions: Sequence[Version]) -> Version:
    """Return the version whose descriptor is published.

    Raises:
        VerificationError: the descriptor is that of no version.
        OutputError: a document cannot be read.
    """
    if store.stat(f"{name}.versions.json") is None:
        return versions[0]
    current = store.read_if_exists(f"{name}.json")
    history = History.read(store, name)
    # Of many versions, the documents of one are read.
    latest = history.published[-1]["number"] if history and history.published else None
    for version in sorted(versions, key=lambda one: (one.number != latest, -one.number)):
        if store.read_if_exists(f"{name}_{version.number}.json") == current:
            return version
    raise VerificationError(f"{name}.json is not the descriptor of a version; use rollback")


def read_roots(store: OutputStore, name: str) -> list[str]:
    """Return the roots of removed versions that still contain slabs of others.

    Raises:
        VerificationError: the list of versions is damaged.
        OutputError: it cannot be read.
    """
    data = store.read_if_exists(f"{name}.versions.json")
    if data is None:
        return []
    try:
        roots = parsed(data).get("roots", [])
    except (ValueError, AttributeError) as error:
        raise VerificationError(f"{name}.versions.json is damaged: {error}") from None
    if not isinstance(roots, list):
        raise VerificationError(f"{name}.versions.json is damaged: `roots` is not a list")
    for root in roots:
        if not _is_root(name, root):
            reason = f"{root!r} is not a root of this pyramid; remove it from `roots`"
            raise VerificationError(f"{name}.versions.json is damaged: {reason}")
    return roots


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
    """Copy the documents of a pyramid that has none of this number, or others.

    Older programs wrote them only when a second version was made.

    Raises:
        PlanError: another pyramid has this name.
        OutputError: a document cannot be read or written.
    """
    if store.read_if_exists(f"{name}_{number}.json") == store.read(f"{name}.json"):
        return
    check_own(store, name, number)
    _copy(store, name, f"{name}_{number}")


def check_own(store: OutputStore, name: str, number: int) -> None:
    """Check that the documents of a version would not replace those of another pyramid.

    Raises:
        PlanError: another pyramid has their name.
        OutputError: a document cannot be read.
    """
    stem = f"{name}_{number}"
    if store.stat(f"{stem}.json") is None:
        return
    record = read_record(store, stem)
    if record is None or record.root == stem:
        raise PlanError(
            f"{stem}.json is another pyramid, and version {number} of {name} would have its name; "
            "choose another name"
        )


def open_history(store: OutputStore, name: str, versions: Sequence[Version]) -> History:
    """Return the history of a pyramid; older programs wrote none, or no entries for their versions.

    Args:
        versions: all versions.

    Raises:
        VerificationError: a document is damaged.
        OutputError: a document cannot be read.
    """
    if not versions:
        return History()
    history = History.read(store, name) or History()
    own = store.stat(f"{name}.versions.json") is not None
    before = None
    for version in versions:
        if str(version.number) in history.versions:
            continue
        record = record_of(store, name, version)
        descriptor = descriptor_of(store, f"{name}_{version.number}" if own else name)
        update = descriptor.get("update", {})
        entry = version_entry(
            descriptor, record, before, bbox=update.get("bbox"), since=update.get("since")
        )
        history.set_version(version.number, entry)
        before = record
    with suppress(VerificationError):  # it can be published again
        number = published(store, name, versions).number
        generation = digest_of(descriptor_of(store, name))
        history.correct(number, history.versions[str(number)]["built"], generation)
    return history


def publish_version(
    store: OutputStore, name: str, number: int, note: Note, history: History
) -> None:
    """Publish a version whose documents exist.

    The history is written first and the descriptor last, so that an address that a server gives to
    clients is always known. The stacks that list the pyramid follow.

    Args:
        history: of the pyramid, with this version.

    Raises:
        OutputError: a document cannot be read or written.
        VerificationError, LockedError: a stack cannot be renewed.
    """
    history.publish(history.versions[str(number)]["generation"], number, note)
    history.write(store, name)
    _copy(store, f"{name}_{number}", name)
    renew_stacks(store, name)


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
