"""Decoding of request parameters, which differ little from one request to the next."""

from __future__ import annotations

import struct
from typing import Any

from mastaba_server.transport.fastcgi.records import decode_pairs, size_at

_unpack_long = struct.Struct("!L").unpack_from
_MAX_PATIENCE = 64
# Clients choose header names, so the number of names must be limited.
_MAX_CHANGING = 256

_Segment = tuple[bytes, int, dict[str, str] | None, str]
"""A run of unchanged pairs: its bytes, their number, the decoded pairs, an empty string; or a
pair that changes: the bytes of its name, their number, None, its name."""


class ParamsDecoder:
    """Decodes the parameters of requests, and learns what they have in common.

    A front server sends about two dozen parameters in a fixed order; little more than the query
    and the path changes. One byte comparison recognises a run of unchanged pairs. After the
    first difference, the rest is decoded pair by pair. So what was learnt can make decoding
    slow, but never wrong. One instance serves all threads: shared state is replaced, never
    modified.
    """

    def __init__(self) -> None:
        self._plan: tuple[_Segment, ...] = ()
        self._pairs: dict[str, str] = {}
        self._changing: frozenset[str] = frozenset()
        self._surprises = 0
        self._patience = 1

    def decode(self, data: bytes, into: dict[str, Any]) -> None:
        """Add the name-value pairs to a dictionary, as native strings (PEP 3333).

        Raises:
            MalformedError: a length points beyond the end of the data.
        """
        position = 0
        end = len(data)
        for known, size, values, name in self._plan:
            if values is not None:
                if not data.startswith(known, position):
                    break
                into.update(values)
                position += size
                continue
            if position + 5 > end or data[position] != size:
                break
            value_size = data[position + 1]
            start = position + 2
            if value_size >= 128:
                value_size = _unpack_long(data, position + 1)[0] & 0x7FFFFFFF
                start = position + 5
            if not data.startswith(known, start):
                break
            start += size
            following = start + value_size
            if following > end:
                break
            into[name] = data[start:following].decode("latin-1")
            position = following
        if position != end:
            self._surprise(data, position, into)

    def _surprise(self, data: bytes, position: int, into: dict[str, Any]) -> None:
        decode_pairs(data[position:], into)
        self._surprises += 1
        if self._surprises >= self._patience:
            self._surprises = 0
            self._patience = min(self._patience * 2, _MAX_PATIENCE)
            self._learn(data)

    def _learn(self, data: bytes) -> None:
        pairs: dict[str, Any] = {}
        decode_pairs(data, pairs)
        before = self._pairs
        changed = {name for name in pairs if before.get(name, pairs[name]) != pairs[name]}
        known = self._changing | changed
        self._changing = known if len(known) <= _MAX_CHANGING else frozenset()
        self._pairs = pairs
        self._plan = _plan(data, self._changing)


def _plan(data: bytes, changing: frozenset[str]) -> tuple[_Segment, ...]:
    plan: list[_Segment] = []
    position = run_start = 0
    end = len(data)
    while position < end:
        name_size, start = size_at(data, position)
        value_size, start = size_at(data, start)
        following = start + name_size + value_size
        known = data[start : start + name_size]
        name = known.decode("latin-1")
        if name in changing and name_size < 128:
            _add_run(plan, data[run_start:position])
            plan.append((known, name_size, None, name))
            run_start = following
        position = following
    _add_run(plan, data[run_start:])
    return tuple(plan)


def _add_run(plan: list[_Segment], data: bytes) -> None:
    if data:
        values: dict[str, Any] = {}
        decode_pairs(data, values)
        plan.append((data, len(data), values, ""))
