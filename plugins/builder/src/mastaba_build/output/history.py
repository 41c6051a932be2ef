"""The history of a pyramid: its versions, what was published when, pins (time.md section 4.1).

``NAME.history.json`` has one entry for each version, also for those whose slabs are gone, and one
for each publication. ``NAME.pins.json`` names the versions that must stay because others need them.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from mastaba.api.catalogue import digest_of
from mastaba_build.errors import PlanError, VerificationError
from mastaba_build.output.parsing import parsed
from mastaba_build.output.records import Record
from mastaba_build.output.storage import OutputStore

KEPT: Final = "kept"
PRUNED: Final = "pruned"
INJECTED: Final = "injected"
WITHDRAWN: Final = "withdrawn"

COUNTS: Final = {"sources": ("added", "removed", "changed"), "slabs": ("written", "linked")}
"""Numbers of a version, in the order of the document."""

_USUAL: Final = {"message": "", "by": "update"}
"""What a publication has if the document does not say so."""
_LONGEST: Final = 1000
"""Characters of a message."""

Pins: TypeAlias = list[dict[str, Any]]


class Note(NamedTuple):
    """What a publication says about itself.

    Attributes:
        by: the command that publishes, as ``build`` or ``rollback``.
        message: for people; empty for none.
    """

    by: str
    message: str = ""


class History:
    """The content of ``NAME.history.json``.

    Attributes:
        versions: entries by number of the version. ``generation`` is that of its descriptor;
            ``former`` are earlier ones, ``kept`` if only the descriptor was changed, ``injected``
            if slabs were replaced. ``since`` is the generation published when it was built,
            ``bbox`` what has changed since then, in the CRS of the tile matrix set: null for
            anything, empty for nothing.
        published: ``generation``, ``number``, ``from``, ``message`` and ``by`` of each
            publication, the oldest first. The last one counts only if its generation is that of
            ``NAME.json``.
        retention: days for `prune`, as in the configuration of the last build.
    """

    def __init__(
        self,
        versions: Mapping[str, dict[str, Any]] = {},
        published: Sequence[dict[str, Any]] = (),
        retention: Mapping[str, int] = {},
    ) -> None:
        self.versions = dict(versions)
        self.published = list(published)
        self.retention = dict(retention)

    @classmethod
    def read(cls, store: OutputStore, name: str) -> History | None:
        """Return the history of a pyramid; None if it has none.

        Raises:
            VerificationError: it is damaged.
            OutputError: it cannot be read.
        """
        data = store.read_if_exists(f"{name}.history.json")
        if data is None:
            return None
        try:
            found = cls(**parsed(data))
            found._expand()
            for entry in found.versions.values():
                entry["generation"], entry["state"]
            for row in found.published:
                row["generation"], row["number"], row["from"]
        except (ValueError, KeyError, TypeError) as error:
            raise VerificationError(f"{name}.history.json cannot be used: {error}") from None
        return found

    def write(self, store: OutputStore, name: str) -> None:
        """Write the document, with one line for each entry. Raises OutputError.

        Every server reads it, so what follows from the rest is left out: the state ``kept``, empty
        messages, ``update``, and the generation of a publication if its version still has it.
        ``since`` is the number of a version, if one has that generation; ``sources`` and ``slabs``
        are arrays.
        """
        versions = ",\n".join(
            f"{json.dumps(number)}:{_line(self._short(entry))}"
            for number, entry in self.versions.items()
        )
        rows = ",\n".join(_line(self._short_row(row)) for row in self.published)
        retention = f',\n"retention":{_line(self.retention)}' if self.retention else ""
        body = f'"versions":{{\n{versions}\n}},\n"published":[\n{rows}\n]{retention}\n'
        store.write(f"{name}.history.json", f"{{\n{body}}}\n".encode())

    def _short(self, entry: Mapping[str, Any]) -> dict[str, Any]:
        short = {key: value for key, value in entry.items() if (key, value) != ("state", KEPT)}
        for kind, names in COUNTS.items():
            if kind in short and short[kind].keys() == set(names):
                short[kind] = [short[kind][name] for name in names]
        number = self.number_of(short.get("since", ""))
        return short if number is None else {**short, "since": number}

    def _short_row(self, row: Mapping[str, Any]) -> dict[str, Any]:
        short = {key: value for key, value in row.items() if _USUAL.get(key) != value}
        if self.versions.get(str(row["number"]), {}).get("generation") == row["generation"]:
            del short["generation"]
        return short

    def _expand(self) -> None:
        """Complete entries that were read. Raises KeyError, TypeError and ValueError."""
        generations = {int(number): one["generation"] for number, one in self.versions.items()}
        for entry in self.versions.values():
            entry.setdefault("state", KEPT)
            if isinstance(entry.get("since"), int):
                entry["since"] = generations[entry["since"]]
            for kind, names in COUNTS.items():
                if isinstance(entry.get(kind), list):
                    entry[kind] = dict(zip(names, entry[kind], strict=True))
        for number, row in enumerate(self.published):
            generation = row.get("generation") or generations[row["number"]]
            self.published[number] = {"generation": generation, **_USUAL, **row}

    def number_of(self, generation: str) -> int | None:
        """Return the version that has a generation; None if there is none."""
        for number, entry in self.versions.items():
            if entry["generation"] == generation:
                return int(number)
        return None

    def set_version(self, number: int, entry: dict[str, Any]) -> None:
        """Add a version, or replace its entry; a generation that it loses is remembered."""
        before = self.versions.get(str(number))
        if before is not None and before["generation"] != entry["generation"]:
            lost = {
                "generation": before["generation"],
                "state": INJECTED if before["state"] == INJECTED else KEPT,
            }
            entry = {**entry, "former": [*before.get("former", ()), lost]}
        self.versions[str(number)] = entry

    def publish(self, generation: str, number: int, note: Note, since: str | None = None) -> None:
        """Add a publication, unless it is the last one.

        Args:
            since: when it began; None for now.
        """
        last = self.published[-1] if self.published else {"generation": "", "from": ""}
        if last["generation"] != generation:
            row = {"generation": generation, "number": number}
            since = max(since or now(), last["from"])
            self.published.append({**row, "from": since, "message": note.message, "by": note.by})

    def correct(self, number: int, built: str, generation: str) -> None:
        """Correct the last publication, if it was interrupted, or made by an older program.

        Args:
            number, built, generation: of the version that ``NAME.json`` is a copy of.
        """
        entry = self.versions[str(number)]
        if entry["generation"] != generation:
            # The older program may have replaced slabs.
            entry["state"] = INJECTED
            self.set_version(number, {**entry, "generation": generation, "state": KEPT})
        if len(self.published) > 1 and self.published[-2]["generation"] == generation:
            self.published.pop()
        # Earlier versions were published too, but nothing says until when.
        is_latest = number == max(map(int, self.versions))
        self.publish(generation, number, Note("build"), built if is_latest else None)

    def move(self, number: str, generation: str) -> None:
        """Give a version another generation everywhere, because the pyramid is at another place."""
        entry = self.versions[number]
        former = entry["generation"]
        entry["generation"] = generation
        for one in (*self.versions.values(), *self.published):
            for key in ("generation", "since"):
                if one.get(key) == former:
                    one[key] = generation

    def ends(self) -> dict[str, str | None]:
        """Return when each published generation was last replaced; None if it is published now."""
        ends: dict[str, str | None] = {}
        for row, later in zip(self.published, [*self.published[1:], None], strict=True):
            ends[row["generation"]] = later["from"] if later else None
        return ends


def version_entry(
    descriptor: Mapping[str, Any],
    record: Record,
    before: Record | None,
    *,
    bbox: Sequence[float] | None,
    since: str | None = None,
    message: str = "",
) -> dict[str, Any]:
    """Return the entry of a version in a history.

    Args:
        descriptor: of the version.
        before: record of the version that was published when it was built.
        bbox: of what has changed since then, xmin, ymin, xmax, ymax; None if nothing has.
        since: generation of that version.
    """
    added, removed, changed = source_changes(before, record)
    stored = list(record.stored())
    linked = sum(slab.holder is not None for slab in stored)
    return {
        "generation": digest_of(descriptor),
        "built": str(record.facts["time"]).replace("+00:00", "Z"),
        # A history of hundreds of versions is read by every server: short numbers will do.
        "bbox": None if bbox is None else [float(f"{value:.12g}") for value in bbox],
        "sources": {"added": len(added), "removed": len(removed), "changed": len(changed)},
        "slabs": {"written": len(stored) - linked, "linked": linked},
        "state": KEPT,
        **({"message": message} if message else {}),
        **({"since": since} if since else {}),
    }


def source_changes(before: Record | None, after: Record) -> tuple[list[str], list[str], list[str]]:
    """Return the paths of sources that were added, removed and changed, sorted."""
    old, new = (
        {} if record is None else {one["path"]: one["identity"] for one in record.facts["sources"]}
        for record in (before, after)
    )
    return (
        sorted(new.keys() - old.keys()),
        sorted(old.keys() - new.keys()),
        sorted(path for path in old.keys() & new.keys() if old[path] != new[path]),
    )


def checked_message(text: str) -> str:
    """Return a message of a user.

    Raises:
        PlanError: it is too long, or has control characters.
    """
    if len(text) > _LONGEST or not text.isprintable():
        raise PlanError(f"--message: at most {_LONGEST} printable characters, in one line")
    return text


def now() -> str:
    """Return the time in UTC, as histories write it."""
    return instant(datetime.datetime.now(datetime.UTC))


def instant(time: datetime.datetime) -> str:
    """Return a time as histories write it: equal lengths, so that texts are ordered as times."""
    text = time.astimezone(datetime.UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")


def read_pins(store: OutputStore, name: str) -> Pins:
    """Return the pins that are in force: ``generation``, ``by``, ``reason``, ``until``.

    Raises:
        VerificationError: the document is damaged.
        OutputError: it cannot be read.
    """
    data = store.read_if_exists(f"{name}.pins.json")
    try:
        pins: Pins = [] if data is None else parsed(data)
        today = now()[:10]
        return [
            {
                "generation": str(one["generation"]),
                "by": str(one["by"]),
                "reason": one["reason"],
                "until": one["until"],
            }
            for one in pins
            if one["until"] is None or str(one["until"]) >= today
        ]
    except (ValueError, KeyError, TypeError) as error:
        raise VerificationError(f"{name}.pins.json cannot be used: {error}") from None


def write_pins(store: OutputStore, name: str, pins: Pins) -> None:
    """Write the pins of a pyramid. Raises OutputError."""
    lines = ",\n".join(f"  {_line(one)}" for one in pins)
    store.write(f"{name}.pins.json", f"[\n{lines}\n]\n".encode())


def _line(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
