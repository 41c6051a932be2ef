"""What administrators have created or replaced, in a directory: layers and virtual services."""

from __future__ import annotations

import contextlib
import errno
import json
import os
from typing import Final
from urllib.parse import quote, unquote

from mastaba.api.services import Action, Change
from mastaba.api.storages import replaced_file
from mastaba.errors import ChangeRefusedError, reason_of

_SUFFIX = ".json"
# Other special characters of an identifier are percent-encoded in its file name.
_SAFE = "!#$&'()+,;=@[]^{} "
_WRITTEN: Final = frozenset(
    (
        *(Action.CREATE_LAYER, Action.REPLACE_LAYER),
        *(Action.CREATE_VIRTUAL, Action.REPLACE_VIRTUAL),
    )
)
_REMOVED: Final = frozenset((Action.DELETE_LAYER, Action.DELETE_VIRTUAL))


def kept_layers(directory: str) -> dict[str, str]:
    """Return the descriptors in a directory by layer; a missing directory counts as empty.

    Raises:
        OSError: it cannot be read.
    """
    try:
        names = sorted(os.listdir(directory))
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise OSError(errno.EINVAL, str(error), directory) from error
    return {
        unquote(name.removesuffix(_SUFFIX)): f"{directory}/{name}"
        for name in names
        if name.endswith(_SUFFIX) and not name.startswith(".")
    }


def kept_virtual(directory: str) -> dict[str, str]:
    """Return the sections in a directory of layers by virtual service.

    Raises:
        OSError: it cannot be read.
    """
    return kept_layers(_of_virtual(directory))


def keep(directory: str, change: Change) -> None:
    """Write or remove the document of a changed layer or virtual service.

    Raises:
        ChangeRefusedError: this is not possible.
    """
    folder = _of_virtual(directory) if change.virtual else directory
    what = "virtual service" if change.virtual else "layer"
    try:
        if change.action in _WRITTEN:
            _write(folder, change)
        elif change.action in _REMOVED:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(_path(folder, change))
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            reason = f"the identifier of the {what} is too long for a file name"
            raise ChangeRefusedError("faulty", reason) from error
        reason = f"the {what} cannot be saved in {folder}: {reason_of(error)}"
        raise ChangeRefusedError("failed", reason) from error


def _of_virtual(directory: str) -> str:
    return f"{directory.rstrip('/')}/virtual"


def _write(directory: str, change: Change) -> None:
    """Write a document atomically; create the directory if needed."""
    os.makedirs(directory, exist_ok=True)
    data = json.dumps(change.document, indent=2, ensure_ascii=False).encode() + b"\n"
    with replaced_file(_path(directory, change)) as stream:
        stream.write(data)
        os.fchmod(stream.fileno(), 0o644)


def _path(directory: str, change: Change) -> str:
    name = quote(change.layer or change.virtual, safe=_SAFE)
    # `kept_layers` ignores hidden files.
    if name.startswith("."):
        name = "%2E" + name[1:]
    return f"{directory}/{name}{_SUFFIX}"
