"""Counts the logs of front servers, in the cells that the server has for the same requests.

Logs have no bodies: requests by POST count for what their addresses say.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import BinaryIO, Final, cast

from mastaba.api.access import Form, Grant, Principal, Shown
from mastaba.api.services import Site
from mastaba.api.web import Request
from mastaba.errors import AccessError
from mastaba_server.messages import CLIENT_GONE
from mastaba_server.web.credentials import without_parameters, without_segment
from mastaba_usage.addresses import Addresses
from mastaba_usage.cells import MOST_CELLS, OTHER, Cell, Counts
from mastaba_usage.database import Database
from mastaba_usage.errors import UsageError
from mastaba_usage.front_logs import LONGEST, Line, Reader
from mastaba_usage.meter import ANONYMOUS, LIMITED, TILES, layers_seen, outcome, use_of
from mastaba_usage.naming import UNKNOWN, named

_MOST_CREDENTIALS: Final = 65_536
_PIECE: Final = 1024**2


@dataclass(slots=True)
class Imported:
    """What was read of a file.

    Attributes:
        lines: requests that were counted.
        bad: lines that could not be read.
        before: bytes at the beginning that had been counted before.
    """

    lines: int = 0
    bad: int = 0
    before: int = 0


def import_log(path: Path, reader: Reader, counter: LogCounter, database: Database) -> Imported:
    """Add a log to the database. What was counted before is not counted again.

    A last line without an end is left for the next time.

    Args:
        path: of the file; it may be compressed with gzip.

    Raises:
        UsageError: the file or the database cannot be used; nothing of the file is counted.
    """
    known = database.logs()
    found = Imported()
    try:
        with _opened(path) as stream:
            found.before = _counted_before(stream, known)
        with _opened(path) as stream:
            digest, size = _read(stream, reader, counter, found)
    except (OSError, EOFError, zlib.error) as error:
        # What was counted of it.
        counter.taken()
        reason = getattr(error, "strerror", None) or "it is damaged"
        raise UsageError(f"{path.name} cannot be read: {reason}") from error
    if size > found.before:
        database.count_log(known, (digest, size), counter.taken())
    return found


def _counted_before(stream: BinaryIO, known: dict[str, int]) -> int:
    """Return how many bytes of a log were counted before."""
    digest, place, found = sha256(), 0, 0
    for size in sorted(set(known.values())):
        while place < size:
            piece = stream.read(min(_PIECE, size - place))
            if not piece:
                return found
            digest.update(piece)
            place += len(piece)
        if known.get(digest.hexdigest()) == size:
            found = size
    return found


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    with path.open("rb") as file:
        is_compressed = file.peek(2)[:2] == b"\x1f\x8b"
        yield cast("BinaryIO", gzip.GzipFile(fileobj=file)) if is_compressed else file


def _read(
    stream: BinaryIO, reader: Reader, counter: LogCounter, found: Imported
) -> tuple[str, int]:
    """Count the lines behind those that were counted before; return digest and size of all."""
    digest, size = sha256(), 0
    # State before a line that is too long.
    whole = None
    while piece := stream.readline(LONGEST):
        is_end = piece.endswith(b"\n")
        if not is_end and len(piece) < LONGEST:
            break
        if not is_end and whole is None:
            whole = digest.copy(), size
        digest.update(piece)
        size += len(piece)
        if not is_end:
            continue
        is_new = size > found.before
        try:
            if whole is not None:
                raise ValueError("too long")
            # Also the lines that were counted: the first ones may name the fields.
            line = reader(piece.decode("utf-8", "replace").rstrip("\r\n"))
            if line is not None and is_new:
                counter.count(line)
                found.lines += 1
        except ValueError:
            found.bad += is_new
        whole = None
    if whole is not None:
        digest, size = whole
    return digest.hexdigest(), size


class LogCounter:
    """Counts lines of logs.

    Args:
        site: the configuration; its addresses, layers and keys decide what a line is about.
    """

    def __init__(self, site: Site) -> None:
        self._site = site
        self._addresses = Addresses(site)
        self._days: dict[str, dict[Cell, list[int]]] = {}
        self._grants: dict[str, Grant | None] = {}
        # Otherwise, anybody can send any name.
        access = site.plugin_settings.get("access", {})
        self._has_users = not access.keys().isdisjoint(("users", "user_header"))

    def count(self, line: Line) -> None:
        """Count a line."""
        route, path = self._addresses.inner_path(line.path)
        query, status = line.query, outcome(line.status or CLIENT_GONE)
        grant: Grant | None = None
        key, label = ANONYMOUS, ""
        is_refused = False
        gate = self._site.gate
        if gate is not None:
            credential, path = without_segment(path, self._site.roots)
            values, query = without_parameters(query, gate.query_names)
            if credential or values:
                form = Form.PATH if credential else Form.QUERY
                grant = self._grant(Shown(form, credential or values[0]), line.client)
                is_refused = grant is None
                if grant is not None:
                    key, label = grant.principal.account, grant.principal.owner.label
                elif status != "refused":
                    key = UNKNOWN
            elif line.user and self._has_users and status != "refused":
                key = Principal(line.user, "user").account
        below = self._addresses.below(route, path)
        service = "" if below is None else route.service
        virtual = route.virtual
        group = None
        if line.method == "GET" and line.status in (200, 304):
            group = self._addresses.tiles(service, below or "", query)
        if group is not None:
            cell = Cell(service, virtual, group.layer, group.level, TILES, key, status, label)
            self._add(line.day, cell, (1, line.size, 1, 0))
            return
        seen = layers_seen(self._site, getattr(grant, "tag", ""), virtual)
        layers, level = named(path.encode("utf-8", "replace").decode("latin-1"), query, seen)
        ability, cost = "", 0
        if service:
            method = "GET" if line.method == "HEAD" else line.method
            # A log has no bodies.
            request = Request(method, below or "", query, {"wsgi.input": BytesIO()})
            tag = getattr(grant, "tag", "")
            ability, cost = use_of(self._site, tag, virtual, service, request)
            if is_refused or line.status == LIMITED:
                cost = 0
        layer = layers[0] if layers else ""
        first = Cell(service, virtual, layer, level, ability, key, status, label)
        self._add(line.day, first, (1, line.size, cost, 0))
        for layer in layers:
            self._add(line.day, first._replace(layer=layer), (0, 0, 0, 1))

    def taken(self) -> list[tuple[str, Cell, Counts]]:
        """Return what was counted since the last call, with its days."""
        days, self._days = self._days, {}
        return [
            (day, cell, Counts(*counts))
            for day, cells in days.items()
            for cell, counts in cells.items()
        ]

    def _add(self, day: str, cell: Cell, numbers: tuple[int, int, int, int]) -> None:
        cells = self._days.setdefault(day, {})
        if cell not in cells and len(cells) >= MOST_CELLS:
            cell = cell._replace(layer=OTHER, level="")
            if cell not in cells and len(cells) >= 2 * MOST_CELLS:
                cell = cell._replace(key=OTHER, label="")
        counts = cells.setdefault(cell, [0, 0, 0, 0])
        for place, number in enumerate(numbers):
            counts[place] += number

    def _grant(self, shown: Shown, client: str) -> Grant | None:
        """Return the grant for a credential; None if it is not accepted, or not any more."""
        if shown.text in self._grants:
            return self._grants[shown.text]
        gate, grant = self._site.gate, None
        if gate is not None:
            try:
                grant = gate.grant((shown,), {}, client)
            except AccessError:
                grant = None
        if len(self._grants) >= _MOST_CREDENTIALS:
            self._grants.clear()
        self._grants[shown.text] = grant
        return grant
