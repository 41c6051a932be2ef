"""Lines of the log: five tab-separated columns, or one JSON object."""

from __future__ import annotations

import json
import logging
import os
from datetime import datetime
from typing import Any

from mastaba_server.errors import escaped

Fields = dict[str, Any]
"""Members of a line of JSON."""


class LineFormatter(logging.Formatter):
    """Lines of time, process, thread, severity and text; control characters are escaped."""

    def format(self, record: logging.LogRecord) -> str:
        text = record.getMessage()
        if record.exc_info:
            text += "\n" + self.formatException(record.exc_info)
        return "\t".join((*map(str, _columns(record).values()), escaped(text)))

    @staticmethod
    def info(text: str, fields: Fields | None, moment: float, thread: int) -> str:
        """Return the line of a message, or of fields, as `format` would.

        Args:
            moment: in Unix seconds.
        """
        if fields is not None:
            text = json.dumps(fields, ensure_ascii=False)
        return f"{stamp(moment)}\t{_process}\t{thread}\tinfo\t{escaped(text)}"


class JSONFormatter(logging.Formatter):
    """One JSON object per line; the fields of an access line are its members."""

    def format(self, record: logging.LogRecord) -> str:
        fields = getattr(record, "fields", None)
        entry = _columns(record) | ({"message": record.getMessage()} if fields is None else fields)
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        # ASCII also escapes surrogates, and characters that some readers take for line ends.
        return json.dumps(entry)

    @staticmethod
    def info(text: str, fields: Fields | None, moment: float, thread: int) -> str:
        """Return the line of a message, or of fields, as `format` would; see `LineFormatter`."""
        columns = {
            "time": stamp(moment),
            "process": _process,
            "thread": thread,
            "severity": "info",
        }
        return json.dumps(columns | ({"message": text} if fields is None else fields))


def _columns(record: logging.LogRecord) -> dict[str, Any]:
    return {
        "time": stamp(record.created),
        "process": record.process,
        "thread": record.thread,
        "severity": "fatal" if record.levelno == logging.CRITICAL else record.levelname.lower(),
    }


def stamp(moment: float) -> str:
    """Return a time in Unix seconds as local time with microseconds and UTC offset."""
    second, begin, offset = second_of(moment)
    return f"{begin}.{int((moment - second) * 1e6):06d}{offset}"


def second_of(moment: float) -> tuple[int, str, str]:
    """Return the second of a time: in Unix time, as local time, and its UTC offset."""
    global _second
    found = _second
    if int(moment) != found[0]:
        second = int(moment)
        text = datetime.fromtimestamp(second).astimezone().isoformat()
        found = _second = second, text[:19], text[19:]
    return found


# A system call for each line would take longer than the rest of it.
_process = os.getpid()


def _in_child() -> None:
    global _process
    _process = os.getpid()


os.register_at_fork(after_in_child=_in_child)

# Of the last line.
_second = (-1, "", "")
