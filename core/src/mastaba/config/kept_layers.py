"""Layer descriptors that a running server saves, and loads when it starts again."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from typing import Any
from urllib.parse import quote, unquote

from mastaba.config.faults import Faults
from mastaba.errors import reason_of
from mastaba.storage.path import ResourcePath

_SUFFIX = ".json"
# Other special characters of an identifier are percent-encoded in its file name.
_SAFE = "!#$&'()+,;=@[]^{} "


def kept_layers(directory: str, faults: Faults) -> dict[str, ResourcePath]:
    """Return the descriptors in a directory by layer; a missing directory counts as empty."""
    try:
        names = sorted(os.listdir(directory))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        reason = reason_of(error)
        faults.warning(
            directory,
            "$",
            f"its layers cannot be read: {reason}",
            "make it readable for the server",
        )
        return {}
    return {
        unquote(name.removesuffix(_SUFFIX)): ResourcePath("file", "", f"{directory}/{name}")
        for name in names
        if name.endswith(_SUFFIX) and not name.startswith(".")
    }


def keep_layer(directory: str, identifier: str, document: Any) -> None:
    """Write the descriptor of a layer atomically; create the directory if needed."""
    os.makedirs(directory, exist_ok=True)
    data = json.dumps(document, indent=2, ensure_ascii=False).encode() + b"\n"
    descriptor, temporary = tempfile.mkstemp(prefix=".", dir=directory)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, _path(directory, identifier))
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def forget_layer(directory: str, identifier: str) -> None:
    """Remove the descriptor of a layer, if there is one."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(_path(directory, identifier))


def _path(directory: str, identifier: str) -> str:
    name = quote(identifier, safe=_SAFE)
    # `kept_layers` ignores hidden files.
    if name.startswith("."):
        name = "%2E" + name[1:]
    return f"{directory}/{name}{_SUFFIX}"
