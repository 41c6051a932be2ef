"""One job, as the queue knows it."""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

_ID: Final = re.compile(r"[0-9a-f]{32}")


class State(StrEnum):
    """States of a job, by their names in OGC API - Processes."""

    ACCEPTED = "accepted"
    RUNNING = "running"
    SUCCESSFUL = "successful"
    FAILED = "failed"
    DISMISSED = "dismissed"

    @property
    def is_final(self) -> bool:
        """Whether the job is no longer worked on."""
        return self not in (State.ACCEPTED, State.RUNNING)


@dataclass(frozen=True, slots=True)
class Order:
    """A job that a client wants.

    Attributes:
        owner: as `owners.owner_of` returns it.
        process: identifier of the process.
        layer: identifier of the layer.
        inputs: those of the process, as JSON.
        plan: text that changes with what would be exported.
        estimate: what the result is expected to have, as JSON.
        expected_bytes: bytes of the result.
        names_sources: whether the client may know the sources of the layer.
        is_public: whether everybody may have the result.
    """

    owner: str
    process: str
    layer: str
    inputs: Mapping[str, Any]
    plan: str
    estimate: Mapping[str, Any]
    expected_bytes: int
    names_sources: bool = False
    is_public: bool = False


@dataclass(frozen=True, slots=True)
class ResultFile:
    """A file of a result.

    Attributes:
        name: below the directory of the job.
        media_type: Content-Type.
        size: bytes.
    """

    name: str
    media_type: str
    size: int


@dataclass(frozen=True, slots=True)
class Job:
    """One row of the queue.

    Attributes:
        id: 128 random bits in hexadecimal digits.
        order: what the client wants.
        progress: percentage.
        message: what happens, or why nothing happens any more.
        checkpoint: bytes that are safely written.
        status: HTTP status of the error of a failed job; 0 for other jobs.
        attempts: how often it could not go on.
        worker: identifier of the worker that has it; empty if none has.
        files: of the result.
        created, started, updated, finished: Unix seconds; 0 for not yet.
    """

    id: str
    order: Order
    state: State
    progress: int = 0
    message: str = ""
    checkpoint: int = 0
    status: int = 0
    attempts: int = 0
    worker: str = ""
    files: tuple[ResultFile, ...] = ()
    created: float = 0.0
    started: float = 0.0
    updated: float = 0.0
    finished: float = 0.0


def new_identifier() -> str:
    """Return an identifier that no one can guess."""
    return secrets.token_hex(16)


def is_identifier(text: str) -> bool:
    """Return whether a text has the form of an identifier."""
    return _ID.fullmatch(text) is not None
