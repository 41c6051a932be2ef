"""Descriptors of the layers that were created or replaced, in a directory of their own."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import tempfile
from urllib.parse import quote, unquote

from mastaba.api.services import Action, Change
from mastaba.errors import ChangeRefusedError, reason_of

_SUFFIX = ".json"
# Other special characters of an identifier are percent-encoded in its file name.
_SAFE = "!#$&'()+,;=@[]^{} "


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


def keep(directory: str, change: Change) -> None:
    """Write or remove the descriptor of a changed layer.

    Raises:
        ChangeRefusedError: this is not possible.
    """
    try:
        if change.action in (Action.CREATE_LAYER, Action.REPLACE_LAYER):
            _write(directory, change)
        elif change.action is Action.DELETE_LAYER:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(_path(directory, change.layer))
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            reason = "the identifier of the layer is too long for a file name"
            raise ChangeRefusedError("faulty", reason) from error
        reason = f"the layer cannot be saved in {directory}: {reason_of(error)}"
        raise ChangeRefusedError("failed", reason) from error


def _write(directory: str, change: Change) -> None:
    """Write a descriptor atomically; create the directory if needed."""
    os.makedirs(directory, exist_ok=True)
    data = json.dumps(change.document, indent=2, ensure_ascii=False).encode() + b"\n"
    descriptor, temporary = tempfile.mkstemp(prefix=".", dir=directory)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, _path(directory, change.layer))
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def _path(directory: str, identifier: str) -> str:
    name = quote(identifier, safe=_SAFE)
    # `kept_layers` ignores hidden files.
    if name.startswith("."):
        name = "%2E" + name[1:]
    return f"{directory}/{name}{_SUFFIX}"
