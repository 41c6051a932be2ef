"""An installation for a few files, in a temporary folder."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from mastaba.api.documents import Faults, Severity
from mastaba.api.storages import Environment, ResourcePath
from mastaba.api.tools import Plugins
from mastaba.errors import ConfigurationError
from mastaba.tooling.documents import load_catalogue, load_server
from mastaba_writer.installation import installed_services, layer_document, write_installation

_DESCRIPTORS: Final = (".json", ".yaml", ".yml")
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
        InvalidFileError: a file does not exist, has the name of another, or is a descriptor whose
            tile matrix set needs a configuration.
        OSError: the installation cannot be written.
    """
    layers: dict[str, Mapping[str, Any]] = {}
    for file in files:
        name = identifier_of(file)
        if name in layers:
            raise InvalidFileError(f"{file}: another file has the name {name!r}; rename one")
        layers[name] = _layer(file)
    return write_installation(
        folder,
        layers=layers,
        services=installed_services(),
        public_url=public_url,
        services_overrides=_REPROJECTION,
    )


def identifier_of(file: str) -> str:
    """Return the identifier of the layer of a file: its name without suffix."""
    name = file.rstrip("/").rpartition("/")[2].partition("?")[0]
    return name.rpartition(".")[0] or name


def check(server_json: Path, plugins: Plugins, files: Sequence[str]) -> None:
    """Open all layers of an installation.

    Raises:
        InvalidFileError: one cannot be opened; with the reason, and what helps.
        ConfigurationError: the installation cannot be loaded.
    """
    faults = Faults()
    server = load_server(str(server_json), plugins, faults)
    catalogue = load_catalogue(server, plugins, Environment(), faults)
    catalogue.storages.close()
    for file in files:
        name = identifier_of(file)
        if name not in catalogue.missing_layers:
            continue
        # The descriptor of the layer is ours: what it says about the file counts.
        reasons = [f for f in faults.errors if f.severity is Severity.ERROR]
        own = [one for one in reasons if Path(one.file).stem == name or file in str(one)]
        reason = "; ".join(f"{one.reason}: {one.remedy}" for one in own or reasons)
        raise InvalidFileError(f"{file}: {reason or 'it cannot be opened'}")
    if catalogue.missing_layers:
        raise ConfigurationError(faults.errors)


def _layer(file: str) -> Mapping[str, Any]:
    """Return the descriptor of the layer of a file."""
    path = file
    is_local = ResourcePath.parse(file).storage == "file"
    if is_local:
        local = Path(file)
        if not local.is_file():
            raise InvalidFileError(f"{file}: there is no such file")
        path = str(local.resolve())
    if not path.endswith(_DESCRIPTORS):
        return {"pyramids": [{"path": path}]}
    if not is_local or not path.endswith(".json"):
        raise InvalidFileError(f"{file}: only descriptors in local .json files can be served")
    try:
        return layer_document(Path(path), title=identifier_of(file))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        what = "is not JSON" if isinstance(error, json.JSONDecodeError) else f"{error}"
        reason = f"it is no pyramid descriptor of a common tile matrix set ({what})"
        raise InvalidFileError(f"{file}: {reason}; serve it with a configuration") from None
