"""JSON documents: their type, writing and merging."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

__all__ = [
    "Document",
    "merged",
    "write_document",
]

Document: TypeAlias = dict[str, Any]
"""A JSON object."""


def write_document(path: Path, document: Mapping[str, Any]) -> Path:
    """Write a JSON document in UTF-8, create its directories, and return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(dict(document), indent=2, ensure_ascii=False) + "\n"
    path.write_text(text, encoding="utf-8")
    return path


def merged(document: Mapping[str, Any], overrides: Mapping[str, Any]) -> Document:
    """Return a document with overrides applied: objects are merged, other values replaced."""
    result = dict(document)
    for key, value in overrides.items():
        known = result.get(key)
        if isinstance(known, Mapping) and isinstance(value, Mapping):
            value = merged(known, value)
        result[key] = value
    return result
