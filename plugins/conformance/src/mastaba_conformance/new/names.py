"""The names of a new plugin, and whether they can be used."""

from __future__ import annotations

import importlib.util
import keyword
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from mastaba import LazyClass, hookimpl
from mastaba.api.tools import Plugins

# Longer names would not fit the lines of the templates.
_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,23}")

OURS: Final = frozenset(
    (
        "access",
        "access_oidc",
        "admin",
        "build",
        "cog",
        "conformance",
        "containers",
        "core",
        "coverage",
        "demo",
        "dimensions",
        "doctor",
        "documents",
        "edge",
        "elevation",
        "export",
        "history",
        "http",
        "index_store",
        "metrics",
        "ogcapi",
        "ows",
        "pmtiles",
        "provenance",
        "render",
        "serve",
        "server",
        "sqlite_tiles",
        "storage",
        "storage_ceph",
        "storage_s3",
        "storage_http",
        "storage_swift",
        "styles",
        "tms",
        "usage",
        "viewer",
        "wcs",
        "wms",
        "wmts",
        "writer",
    )
)
"""Plugins that come with Mastaba. They may be installed later."""


class InvalidNameError(Exception):
    """The name cannot be used; the message is one line."""


@dataclass(frozen=True, slots=True)
class Names:
    """What the parts of a new distribution are called.

    Attributes:
        name: of the driver, service, format or container.
        plugin: of the entry point.
        distribution: of the distribution.
        package: of the import package.
        class_name: of the class, without its kind: ``LocalCopy`` for ``local_copy``.
        extension: file name extension of a format or container.
    """

    name: str
    plugin: str
    distribution: str
    package: str
    class_name: str
    extension: str


def names_of(
    kind: str, name: str, blocked: Iterable[str] = (), directory: str | None = None
) -> Names:
    """Return the names for a new plugin.

    Args:
        kind: ``storage``, ``service``, ``encoder`` or ``container``.
        name: name of the driver, service, format or container.
        blocked: plugins that must not be loaded.
        directory: directory of plugins that consist of one file, if any.

    Raises:
        InvalidNameError: the name is invalid or already in use.
    """
    if _NAME.fullmatch(name) is None:
        raise InvalidNameError(
            f"{name!r} is not a usable name: write at most 24 lower-case letters, digits and _, "
            "a letter first"
        )
    if keyword.iskeyword(name) or keyword.issoftkeyword(name):
        raise InvalidNameError(f"{name!r} is a keyword of Python, choose another name")
    plugin = f"storage_{name}" if kind == "storage" else name
    names = Names(
        name,
        plugin,
        f"mastaba-{plugin.replace('_', '-')}",
        f"mastaba_{plugin}",
        "".join(part.capitalize() for part in name.split("_")),
        name.replace("_", "")[:16],
    )
    if plugin in OURS:
        raise InvalidNameError(f"{plugin!r} is a plugin of Mastaba itself, choose another name")
    if importlib.util.find_spec(names.package) is not None:
        raise InvalidNameError(f"the package {names.package} is installed, choose another name")
    extra = {plugin: _Trial(kind, names)}
    for problem in Plugins(blocked, extra, directory=directory, tolerant=True).problems:
        # The remedy is for operators.
        reason = problem.partition(". To start without it")[0]
        raise InvalidNameError(f"choose another name than {name!r}: {reason}")
    return names


class _Trial:
    """A plugin with the names only. Mastaba's own checks find every conflict with others."""

    def __init__(self, kind: str, names: Names) -> None:
        self._kind = kind
        self._names = names

    def _given(self, kind: str, **attributes: Any) -> list[LazyClass]:
        reference = f"{self._names.package}.{kind}:{self._names.class_name}"
        return [LazyClass(reference, **attributes)] if kind == self._kind else []

    @hookimpl
    def register_storages(self) -> list[LazyClass]:
        return self._given("storage", name=self._names.name)

    @hookimpl
    def register_services(self) -> list[LazyClass]:
        return self._given("service", name=self._names.name)

    @hookimpl
    def register_containers(self) -> list[LazyClass]:
        suffixes = (f".{self._names.extension}",)
        return self._given("container", name=self._names.name, suffixes=suffixes)

    @hookimpl
    def register_encoders(self) -> list[LazyClass]:
        media_type = f"image/x-{self._names.extension}"
        return self._given(
            "encoder",
            name=self._names.name,
            media_type=media_type,
            extension=self._names.extension,
        )
