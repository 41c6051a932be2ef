"""Documents of sources and styles that are nested too deeply."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from mastaba_build.errors import PlanError
from mastaba_build.plan.styling import load_styling
from mastaba_build.plugins import OF_ENVIRONMENT
from mastaba_build.sources.sets import _document
from mastaba_build.vector.archives import with_layers
from mastaba_build.vector.directory import Directory

DEEP = "[" * 200_000
READERS: dict[str, Callable[[Path], object]] = {
    "style": lambda path: load_styling(path, OF_ENVIRONMENT, is_float=True),
    "directory": lambda path: Directory(path.parent).metadata(),
    "set": lambda path: _document("metadata", path.parent),
    "archive": lambda path: with_layers({"json": path.read_text()}, path),
}


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
def test_deep_document_is_reported(read: Callable[[Path], object], tmp_path: Path) -> None:
    path = tmp_path / "metadata.json"
    path.write_text(DEEP)
    with pytest.raises(PlanError, match="metadata"):
        read(path)
