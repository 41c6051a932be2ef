"""The site of an export: that of a server, or one with only a pyramid."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

from mastaba.api.documents import Faults, parse_document
from mastaba.api.storages import Environment, ResourcePath, StoragePool
from mastaba.api.tools import create_application
from mastaba.errors import ConfigurationError, MastabaError, StorageUnavailableError
from mastaba_export.errors import InvalidRequestError
from mastaba_writer.installation import layer_of, write_installation
from mastaba_writer.registered_sets import REGISTERED
from mastaba_writer.tile_matrix_sets import PUBLISHED

if TYPE_CHECKING:
    from mastaba.api.services import Site
    from mastaba.api.tools import Plugins

_SETS: Final = "tilematrixsets"


@contextmanager
def opened(server_json: str, plugins: Plugins) -> Iterator[Site]:
    """Open the site of a server for exports; it answers no requests.

    Raises:
        InvalidRequestError: the configuration cannot be used; the message contains all errors.
        PluginError: it needs a plugin that cannot be used.
    """
    try:
        site = create_application(server_json, plugins).site
    except ConfigurationError as error:
        raise InvalidRequestError("\n".join(map(str, error.faults))) from None
    try:
        yield site
    finally:
        site.close_services()
        site.catalogue.storages.close()


@contextmanager
def opened_descriptor(
    path: str, plugins: Plugins, sets: Path | None = None
) -> Iterator[tuple[Site, str]]:
    """Open a site whose only layer has all levels of a pyramid.

    Args:
        path: of its descriptor: a file, or ``s3://bucket/name.json`` and the like.
        sets: directory of tile matrix sets; by default that beside the descriptor.

    Returns:
        the site, and the identifier of the layer.

    Raises:
        InvalidRequestError: the descriptor or its tile matrix set cannot be used.
        StorageUnavailableError: their storage does not answer.
    """
    try:
        where = ResourcePath.parse(path if "://" in path else os.path.abspath(path))
    except ValueError as error:
        raise InvalidRequestError(str(error)) from None
    for archive, suffixes in plugins.containers.declared("suffixes").items():
        if where.key.lower().endswith(suffixes or ()):
            raise InvalidRequestError(
                f"{path} is an archive ({archive}), not the descriptor of a pyramid: write its "
                "path into a layer descriptor, and export that layer of the server"
            )
    pool = StoragePool(plugins.storages, Environment())
    try:
        document = _document(pool, where, path)
        name = document.get("tile_matrix_set")
        tile_matrix_set = _set(pool, where, str(name), sets)
        layer = layer_of(str(where), document, tile_matrix_sets={str(name): tile_matrix_set})
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise InvalidRequestError(f"{path} is not the descriptor of a pyramid: {error}") from None
    finally:
        pool.close()
    with TemporaryDirectory(prefix="mastaba-export-") as directory:
        server = write_installation(
            Path(directory),
            layers={where.stem: layer},
            tile_matrix_sets={str(name): tile_matrix_set},
            services=[],
        )
        with opened(str(server), plugins) as site:
            if where.stem not in site.catalogue.layers:
                raise InvalidRequestError(f"{path} cannot be used; mastaba check shows why")
            yield site, where.stem


def _document(pool: StoragePool, where: ResourcePath, path: str) -> dict[str, Any]:
    try:
        text = pool.read_full(where).decode("utf-8-sig")
    except StorageUnavailableError:
        raise
    except (MastabaError, UnicodeDecodeError) as error:
        raise InvalidRequestError(f"{path} cannot be read: {error}") from None
    faults = Faults()
    document = parse_document(text, path, faults)
    if not isinstance(document, dict):
        raise InvalidRequestError(f"{path} is not the descriptor of a pyramid")
    return document


def _set(pool: StoragePool, where: ResourcePath, name: str, sets: Path | None) -> Mapping[str, Any]:
    """Return the document of a tile matrix set: from a directory, or a packaged one."""
    if sets is not None:
        file = sets / f"{name}.json"
        if file.is_file():
            found: dict[str, Any] = json.loads(file.read_text("utf-8"))
            return found
    else:
        folder = where.key.rpartition("/")[0]
        key = f"{folder}/{_SETS}/{name}.json".lstrip("/" if where.storage != "file" else "")
        beside = ResourcePath(where.storage, where.container, key)
        if pool.open_path(beside).exists(beside.key):
            return _document(pool, beside, str(beside))
    packaged = {**PUBLISHED, **REGISTERED}
    if name not in packaged:
        raise InvalidRequestError(
            f"the tile matrix set {name!r} is unknown; state its directory with --tms-directory"
        )
    return packaged[name]()
