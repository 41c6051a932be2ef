"""The template files, and how a distribution is made from them.

Templates of `string.Template` in ``templates/``: those in ``common`` belong to every
distribution, the others to one kind of plugins. Their paths contain names as well. The suffix
keeps tools from taking them for modules.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Final

import mastaba

if TYPE_CHECKING:
    from mastaba_conformance.new.names import Names

_SUFFIX: Final = ".template"
_TITLES: Final = {
    "storage": "Storage driver",
    "service": "Service",
    "encoder": "Encoder",
    "container": "Container",
}


def render(kind: str, names: Names) -> dict[str, str]:
    """Return the text of each file of a new distribution by its path.

    Args:
        kind: ``storage``, ``service``, ``encoder`` or ``container``.
        names: names of the new plugin.
    """
    major, minor, _ = mastaba.__version__.split(".", 2)
    values = {
        **dataclasses.asdict(names),
        "variable": f"{names.plugin.upper()}_ROOT",
        "title": _TITLES[kind],
        "mastaba": f"{major}.{minor}",
        "library": f', "mastaba-render~={major}.{minor}"' if kind == "encoder" else "",
    }
    root = files(__package__) / "templates"
    rendered = {}
    for folder in ("common", kind):
        for path, file in _templates(root / folder):
            text = file.read_text("utf-8")
            rendered[Template(path).substitute(values)] = Template(text).substitute(values)
    return rendered


def write(kind: str, names: Names, directory: Path) -> None:
    """Write a new distribution.

    Raises:
        FileExistsError: the directory exists and is not empty; nothing is written.
        OSError: it cannot be written.
    """
    # Rendered first: an error must not leave half a distribution behind.
    rendered = render(kind, names)
    if directory.exists() and not (directory.is_dir() and not any(directory.iterdir())):
        raise FileExistsError(str(directory))
    for path, text in rendered.items():
        file = directory / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8")


def _templates(folder: Traversable, prefix: str = "") -> Iterator[tuple[str, Traversable]]:
    for item in sorted(folder.iterdir(), key=lambda item: item.name):
        if item.is_dir():
            yield from _templates(item, f"{prefix}{item.name}/")
        elif item.name.endswith(_SUFFIX):
            yield prefix + item.name.removesuffix(_SUFFIX), item
