"""What the log says of each answered request."""

from __future__ import annotations

import ipaddress
import json
import logging
import os
from collections.abc import Callable, Sequence
from time import perf_counter, time
from typing import Any, Final
from urllib.parse import quote

from mastaba_server import trace
from mastaba_server.access.clients import address_of
from mastaba_server.access.principal import Grant
from mastaba_server.log import destination
from mastaba_server.log.batches import MakeLines
from mastaba_server.log.lines import LineFormatter, second_of
from mastaba_server.web.masking import masked, masked_path
from mastaba_server.web.text import utf8

logger = logging.getLogger("mastaba.access")

Entry = tuple[
    MakeLines,
    float,
    float,
    int,
    trace.Trace,
    str | None,
    object,
    str,
    str,
    str,
    int,
    int | None,
    int,
]
"""An answered request: what makes the lines, begin and end (of `perf_counter`), thread, trace,
address of the client, its grant, method, path (one character per byte), query, status, bytes sent
of the body (None if unknown), and bytes of the whole body (0 if all were sent)."""

_CONTROLS: Final = bytes((*range(0x20), 0x7F))


class EntryLines:
    """Makes the lines of answered requests.

    Args:
        style: ``json`` or ``text``.
        steps: whether lines contain the time of each step.
        virtual_of: returns the virtual service for a path; None on a server without views, whose
            lines do not say who a client is.
        addresses: what lines say of the address: ``full``, ``network`` or ``none``.

    Attributes:
        steps: as given.
    """

    def __init__(
        self,
        style: str,
        *,
        steps: bool,
        virtual_of: Callable[[str], str] | None = None,
        addresses: str = "full",
    ) -> None:
        self._is_json = style == "json"
        self.steps = steps
        self._virtual_of = virtual_of
        self._addresses = addresses
        self._is_usual = not (self._is_json or steps or virtual_of) and addresses == "full"

    def of(self, entries: Sequence[Entry], clock: float | None = None) -> list[str]:
        """Return the lines of some entries.

        Args:
            clock: what to add to their times for Unix seconds; None for what is true now.
        """
        log = destination.destination()
        assert log is not None
        if clock is None:
            clock = time() - perf_counter()
        is_usual = self._is_usual and isinstance(log.formatter, LineFormatter)
        if is_usual and _are_plain(entries):
            return _plain_lines(entries, clock)
        line, content = log.info_line, self.content
        return [line(*content(entry), entry[2] + clock, entry[3]) for entry in entries]

    def log(self, entry: Entry) -> None:
        """Log an entry: in a batch, if the log of the process has some."""
        batches = destination.batches
        if batches is not None:
            batches.add_entry(entry)
            return
        text, fields = self.content(entry)
        if fields is None:
            logger.info("%s", text)
        else:
            # A JSON formatter uses the fields, any other formatter the text.
            logger.info("%s", json.dumps(fields, ensure_ascii=False), extra={"fields": fields})

    def content(self, entry: Entry) -> tuple[str, dict[str, Any] | None]:
        """Return what the line of an entry says, as a text or as fields."""
        _, begun, end, _, notes, client, grant, method, path, query, status, size, whole = entry
        seconds = end - begun
        client = client or "-"
        if self._addresses != "full":
            client = _network(client) if self._addresses == "network" else "-"
        path = (path if path.isascii() else utf8(path)) or "/"
        if "/~" in path:
            path = masked_path(path)
        identity = {} if self._virtual_of is None else _identity(grant, self._virtual_of(path))
        if query:
            query = masked(query)
        is_truncated = (size or 0) < whole
        if self._is_json:
            fields: dict[str, Any] = {
                "client": client,
                "method": method,
                "path": path,
                "query": query,
                "status": status,
                "bytes": size,
                "seconds": round(seconds, 6),
                "cache": notes.cache,
                **identity,
            }
            if is_truncated:
                fields["truncated"] = True
            if self.steps:
                fields["steps"] = {name: round(taken, 6) for name, taken in notes.steps.items()}
            return "", fields
        target = f"{path}?{query}" if query else path
        shown = "-" if size is None else size
        text = f"{client} {method} {target} {status} {shown} {seconds:.6f} {notes.cache}"
        for name, item in identity.items():
            text += f" {name}={quote(item)}"
        if is_truncated:
            text += " truncated"
        if self.steps:
            text += "".join(f" {name}={taken:.6f}" for name, taken in notes.steps.items())
        return text, None


def _are_plain(entries: Sequence[Entry]) -> bool:
    """Return whether the lines of entries show what was asked as it is."""
    queries = "&".join([entry[9] for entry in entries])
    rest = "".join([f"{entry[5]}{entry[7]}{entry[8]}" for entry in entries])
    if masked(queries) is not queries or "/~" in rest or not (queries.isascii() and rest.isascii()):
        return False
    shown = (queries + rest).encode("ascii")
    return len(shown.translate(None, _CONTROLS)) == len(shown)


def _plain_lines(entries: Sequence[Entry], clock: float) -> list[str]:
    """Return the usual lines of entries that are plain, as `LineFormatter.info` would.

    Most entries are, and this takes a third of the time.

    Args:
        clock: what to add to the times of entries for Unix seconds.
    """
    lines, process, second, begin, offset = [], os.getpid(), -1, "", ""
    for entry in entries:
        _, begun, end, thread, notes, client, _, method, path, query, status, size, whole = entry
        moment = end + clock
        if int(moment) != second:
            second, begin, offset = second_of(moment)
        lines.append(
            f"{begin}.{int((moment - second) * 1e6):06d}{offset}\t{process}\t{thread}\tinfo\t"
            f"{client or '-'} {method} {path or '/'}{'?' if query else ''}{query} {status} "
            f"{'-' if size is None else size} {end - begun:.6f} "
            f"{'miss' if notes.misses else 'hit' if notes.hits else '-'}"
            f"{' truncated' if (size or 0) < whole else ''}"
        )
    return lines


def _identity(grant: object, virtual: str) -> dict[str, str]:
    """Return the fields of a line that say who asked, without a credential."""
    key = tag = ""
    if isinstance(grant, Grant):
        key, tag = "" if grant.principal.is_anonymous else grant.principal.account, grant.tag
    return {"key": key or "-", "class": tag or "-", "virtual": virtual or "-"}


def _network(address: str) -> str:
    """Return the network of an address, /24 or /48: it does not identify a client."""
    found = address_of(address)
    if found is None:
        return "-"
    length, rest = (24, 8) if found.version == 4 else (48, 80)
    return str(ipaddress.ip_network((int(found) >> rest << rest, length)))
