"""The settings that commands read, without loading layers."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from mastaba.api.documents import Faults, parse_document, read_local_text
from mastaba.errors import ConfigurationError, MastabaError, reason_of


def access_section(arguments: argparse.Namespace) -> Mapping[str, Any]:
    """Return ``plugins.access`` of server.json.

    Raises:
        MastabaError: the file cannot be read, or does not have the section.
    """
    path: str = arguments.file
    try:
        text = read_local_text(path)
    except OSError as error:
        raise MastabaError(f"{path} cannot be read: {reason_of(error)}") from error
    except ValueError as error:
        raise MastabaError(f"{path} {error}") from error
    faults = Faults()
    document = parse_document(text, path, faults)
    if document is None:
        raise ConfigurationError(faults.errors)
    section: Any = document
    for name in ("plugins", "access"):
        section = section.get(name) if isinstance(section, Mapping) else None
    if not isinstance(section, Mapping):
        raise MastabaError(f"{path}: the section $.plugins.access is missing")
    return section
