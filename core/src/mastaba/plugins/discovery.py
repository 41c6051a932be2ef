"""Where plugins come from: entry points of distributions, files in a directory, and callers."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from email.message import Message
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from mastaba import __version__
from mastaba.errors import escaped

ENTRY_POINT_GROUP = "mastaba"


@dataclass(frozen=True, slots=True)
class Source:
    """A plugin that can be loaded.

    Attributes:
        name: name of the entry point, or of the file without its suffix.
        distribution: distribution or file that contains the plugin.
        version: version of the distribution; empty if there is none.
        place: value of the entry point, or path of the file, for messages.
        load: imports the plugin and returns it, usually a module.
        requires: requirements of the distribution.
    """

    name: str
    distribution: str
    version: str
    place: str
    load: Callable[[], object]
    requires: Sequence[str] = ()

    def __str__(self) -> str:
        version = f" {self.version}" if self.version else ""
        return f"the plugin {self.name!r} ({self.distribution}{version})"


def installed() -> Iterator[Source]:
    """Yield the plugins of installed distributions, by name."""
    for point in sorted(importlib.metadata.entry_points(group=ENTRY_POINT_GROUP)):
        assert point.dist is not None
        # Each property of a distribution would read the file again.
        metadata = _metadata(point.dist)
        yield Source(
            point.name,
            escaped(metadata["Name"] or "a distribution without metadata"),
            escaped(metadata["Version"] or ""),
            point.value,
            point.load,
            metadata.get_all("Requires-Dist") or (),
        )


def _metadata(distribution: importlib.metadata.Distribution) -> Any:
    """Return the metadata of a distribution; empty if it has lost its file."""
    with suppress(FileNotFoundError):
        return distribution.metadata
    return Message()


def in_directory(directory: str) -> Iterator[Source]:
    """Yield the plugins that consist of one file, by name."""
    for path in sorted(Path(directory).iterdir()):
        if path.suffix == ".py" and not path.name.startswith(("_", ".")):
            yield Source(path.stem, str(path), "", str(path), partial(_import_file, path))


def given(name: str, plugin: object) -> Source:
    """Return the source of a plugin that the caller has created."""
    return Source(name, "given by the program", "", type(plugin).__name__, lambda: plugin)


def _import_file(path: Path) -> ModuleType:
    """Import a file as a module whose name no other module has."""
    name = f"mastaba_plugin_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Classes of the module look it up there.
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def unmet_requirement(requires: Sequence[str]) -> str | None:
    """Return why a distribution does not fit the running core, or None if it does."""
    for text in requires:
        # The core only: pip has checked the others.
        if re.match(r"\s*mastaba(?![\w.-])", text, re.IGNORECASE) is None:
            continue
        # The plugins of the same release need no library to say that they fit.
        if text in (f"mastaba~={__version__}", f"mastaba=={__version__}"):
            continue
        from packaging.requirements import InvalidRequirement, Requirement

        try:
            requirement = Requirement(text)
        except InvalidRequirement:
            return f"its requirement {text!r} is invalid"
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
            continue
        if not requirement.specifier.contains(__version__, prereleases=True):
            return f"it is made for {requirement.name} {requirement.specifier}, not {__version__}"
    return None
