"""An installation for a few files, in a temporary folder."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from mastaba.api.documents import Fault, Faults
from mastaba.api.storages import Environment, ResourcePath
from mastaba.api.tools import Plugins
from mastaba.errors import ConfigurationError
from mastaba.tooling.documents import load_catalogue, load_server
from mastaba_writer.documents import write_document
from mastaba_writer.installation import installed_services, layer_document, write_installation

_DESCRIPTORS: Final = (".json", ".yaml", ".yml")
_TABLES: Final = (".geojson", ".vrt", ".parquet", ".gti.gpkg")
"""Suffixes of tables of a mosaic."""
_COGS: Final = (".tif", ".tiff", ".gtiff")
_MOST_FILES: Final = 1000
"""Files of a folder: all are opened to find where they are."""
_REPROJECTION: Final = {"global": {"map": {"reprojection": True}}}


class InvalidFileError(Exception):
    """A file cannot be opened; the message names it."""


def write(folder: Path, files: Sequence[str], public_url: str) -> Path:
    """Write an installation with a layer of each file, and return its server.json.

    Args:
        folder: of the installation.
        files: paths, or addresses of objects.
        public_url: start of the public addresses.

    Raises:
        InvalidFileError: a file does not exist, has the name of another or one that no layer can
            have, or is a descriptor whose tile matrix set needs a configuration; or a folder has
            no GeoTIFFs, or too many.
        OSError: the installation cannot be written.
    """
    layers: dict[str, Mapping[str, Any]] = {}
    for file in files:
        _require_writable(file)
        name = identifier_of(file)
        if name in layers:
            raise InvalidFileError(f"{file}: another file has the name {name!r}; rename one")
        layers[name] = _layer(file, folder)
    return write_installation(
        folder,
        layers=layers,
        services=installed_services(),
        public_url=public_url,
        services_overrides=_REPROJECTION,
    )


def _require_writable(file: str) -> None:
    """Refuse a path that no document can contain."""
    try:
        path = _path_of(file)
    except ValueError as error:
        raise InvalidFileError(f"{file!r}: {error}") from None
    # Lists of layers are lines in UTF-8.
    if path.splitlines() != [path] or path.encode(errors="replace").decode() != path:
        raise InvalidFileError(f"{file!r}: its path has several lines, or is not UTF-8; rename it")


def identifier_of(file: str) -> str:
    """Return the identifier of the layer of a file: its name without suffix."""
    name = file.rstrip("/").rpartition("/")[2].partition("?")[0]
    return name.rpartition(".")[0] or name


def check(server_json: Path, plugins: Plugins, files: Sequence[str]) -> None:
    """Open all layers of an installation. Those that have no title get their identifier.

    Raises:
        InvalidFileError: one cannot be opened; with the reason, and what helps.
        ConfigurationError: the installation cannot be loaded.
        OSError: the installation cannot be written.
    """
    missing, faults = _opened(server_json, plugins)
    untitled = [Path(one.file) for one in faults if one.path == "$.title"]
    for path in untitled:
        document = json.loads(path.read_text(encoding="utf-8"))
        write_document(path, {"title": path.stem, **document})
    if untitled:
        missing, faults = _opened(server_json, plugins)
    for file in files:
        if identifier_of(file) in missing:
            raise InvalidFileError(f"{file}: {_reason(file, server_json, plugins, faults)}")
    if missing:
        raise ConfigurationError(faults)


def _reason(file: str, server_json: Path, plugins: Plugins, faults: Sequence[Fault]) -> str:
    """Return why a file cannot be opened, and what helps, without the descriptor of its layer."""
    name, path = identifier_of(file), _path_of(file)
    own = [one for one in faults if Path(one.file).stem == name or path in str(one)]
    suffixes = [one for found in plugins.containers.declared("suffixes").values() for one in found]
    known = (".json", *sorted(suffixes))
    if not path.lower().endswith(known) and any(one.file == path for one in own):
        return f"its suffix is not one of {', '.join(known)}"
    descriptor = server_json.parent / "layers" / f"{name}.json"
    named_by = f"; it is named by pyramids[0].path of {descriptor}"
    reasons = []
    for one in own or faults:
        text = one.reason.removesuffix(named_by).removeprefix(f"{path}: ")
        if text.startswith(f"{path} "):
            text = f"it{text.removeprefix(path)}"
        reasons.append(f"{text}: {one.remedy}")
    return "; ".join(reasons) or "it cannot be opened"


def _opened(server_json: Path, plugins: Plugins) -> tuple[Collection[str], tuple[Fault, ...]]:
    """Load an installation, and return the layers that are missing, and the errors."""
    faults = Faults()
    server = load_server(str(server_json), plugins, faults)
    catalogue = load_catalogue(server, plugins, Environment(), faults)
    catalogue.storages.close()
    return catalogue.missing_layers, faults.errors


def _layer(file: str, folder: Path) -> Mapping[str, Any]:
    """Return the descriptor of the layer of a file.

    Args:
        folder: of the installation.
    """
    is_local = _is_local(file)
    if is_local and Path(file).is_dir():
        return {"pyramids": [{"path": str(_table(Path(file), folder)), "container": "mosaic"}]}
    if is_local and not Path(file).is_file():
        reason = "it is not a regular file" if Path(file).exists() else "there is no such file"
        raise InvalidFileError(f"{file}: {reason}")
    path = _path_of(file)
    if path.lower().endswith(_TABLES):
        return {"pyramids": [{"path": path, "container": "mosaic"}]}
    if not path.endswith(_DESCRIPTORS):
        return {"pyramids": [{"path": path}]}
    if not is_local or not path.endswith(".json"):
        raise InvalidFileError(f"{file}: only descriptors in local .json files can be served")
    try:
        return layer_document(Path(path), title=identifier_of(file))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        what = "is not JSON" if isinstance(error, json.JSONDecodeError) else f"{error}"
        reason = f"it is not a pyramid descriptor of a common tile matrix set ({what})"
        raise InvalidFileError(f"{file}: {reason}; serve it with a configuration") from None


def _table(directory: Path, folder: Path) -> Path:
    """Write a table of the GeoTIFFs of a directory, and return its path."""
    found = [
        str(path.resolve())
        for path in sorted(directory.iterdir())
        if path.name.lower().endswith(_COGS) and path.is_file()
    ]
    if not found:
        raise InvalidFileError(f"{directory}: there is no GeoTIFF in it")
    if len(found) > _MOST_FILES:
        reason = f"there are {len(found)} GeoTIFFs in it, more than {_MOST_FILES}"
        raise InvalidFileError(f"{directory}: {reason}; make a table of them with gdaltindex")
    features = [
        {"type": "Feature", "geometry": None, "properties": {"path": path}} for path in found
    ]
    table = folder / "tables" / f"{identifier_of(str(directory))}.geojson"
    table.parent.mkdir(parents=True, exist_ok=True)
    write_document(table, {"type": "FeatureCollection", "features": features})
    return table


def _is_local(file: str) -> bool:
    return ResourcePath.parse(file).storage == "file"


def _path_of(file: str) -> str:
    return str(Path(file).resolve()) if _is_local(file) else file
