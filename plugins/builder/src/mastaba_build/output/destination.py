"""The output of a build: a directory, or a container of an object store."""

from __future__ import annotations

import importlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from mastaba.api.storages import Environment, ResourcePath
from mastaba.errors import MastabaError, UnknownPluginError
from mastaba_build.errors import OutputError, PlanError
from mastaba_build.output.storage import FileWriter, Place
from mastaba_build.plugins import OF_ENVIRONMENT, PluginSet

_FILE = "file"


@dataclass(frozen=True, slots=True)
class Destination:
    """Where pyramids are written.

    Attributes:
        storage: name of the driver; ``file`` for a directory.
        container: bucket, possibly with ``@cluster``, container or pool; empty for files.
        prefix: absolute directory, or start of the keys, without a slash at its end.
        writer: class that writes, as ``package.module:Class``; every worker imports it.
        container_field: field of a level that names the container; None for files.
    """

    storage: str
    container: str
    prefix: str
    writer: str
    container_field: str | None = None

    @classmethod
    def parse(cls, text: str, plugins: PluginSet = OF_ENVIRONMENT) -> Self:
        """Return the destination of ``--output``: a directory, or ``s3://bucket/prefix``.

        Args:
            plugins: whose storage drivers it may name.

        Raises:
            PlanError: the driver is not installed or cannot write, or a name is invalid.
        """
        scheme, separator, rest = text.partition("://")
        if not separator or scheme == _FILE:
            directory = Path(rest if separator else text).absolute()
            found = cls(_FILE, "", str(directory), str(FileWriter.writer))
        else:
            try:
                driver = plugins.load().storages[scheme]
            except (KeyError, UnknownPluginError):
                raise PlanError(
                    f"output: no storage driver {scheme!r} is installed; "
                    f"try pip install mastaba-storage-{scheme}"
                ) from None
            if driver.writer is None:
                raise PlanError(f"output: the storage driver {scheme!r} only reads")
            container, _, prefix = rest.partition("/")
            if not container:
                raise PlanError(f"output: {text!r} is not of the form {scheme}://container/prefix")
            found = cls(scheme, container, prefix.strip("/"), driver.writer, driver.container_field)
        if found.root.split() != [found.root]:
            raise PlanError("output: the slab list cannot name a place with white space")
        return found

    @property
    def is_local(self) -> bool:
        """Whether it is a directory."""
        return self.storage == _FILE

    @property
    def directory(self) -> Path:
        """The directory; the current one for an object store."""
        return Path(self.prefix) if self.is_local else Path.cwd()

    @property
    def root(self) -> str:
        """What a slab list calls it: the directory, or the container and the prefix."""
        if self.is_local:
            return self.prefix
        return "/".join(filter(None, (self.container.partition("@")[0], self.prefix)))

    def listed(self, root: str) -> str:
        """Return what a slab list calls the root of a pyramid, which is relative to the output."""
        path = f"{self.root}/{root}"
        return os.path.realpath(path) if self.is_local and root.startswith("../") else path

    def path(self, key: str) -> str:
        """Return the path of an object, as layers name it."""
        return str(ResourcePath(self.storage, self.container, self.key(key)))

    def key(self, key: str) -> str:
        """Return the key of an object in the container."""
        return f"{self.prefix}/{key}" if self.prefix else key

    def open(self) -> Place:
        """Return the place, opened.

        Raises:
            OutputError: the container cannot be opened.
        """
        module, _, name = self.writer.partition(":")
        try:
            writer: Any = getattr(importlib.import_module(module), name)
            return Place(writer.open(self.container, Environment()), self.prefix)
        except (ImportError, AttributeError) as error:
            raise OutputError(f"{self}: {self.writer} cannot be imported: {error}") from None
        except MastabaError as error:
            raise OutputError(f"{self}: {error}") from None

    def __str__(self) -> str:
        return self.prefix if self.is_local else f"{self.storage}://{self.root}"
