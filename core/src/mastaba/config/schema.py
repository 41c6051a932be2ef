"""JSON schemas of the configuration files, and validation against them."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from mastaba.config import SCHEMA_NAMES
from mastaba.plugins.manager import Plugins
from mastaba_documents.faults import Faults
from mastaba_documents.validation import DocumentValidator

if TYPE_CHECKING:
    from mastaba.services.base import Service

Services = Mapping[str, "type[Service]"]
"""Classes of services by name."""


@cache
def _text(name: str) -> str:
    return files("mastaba.config").joinpath("schemas", f"{name}.json").read_text("utf-8")


def _load(name: str) -> dict[str, Any]:
    # Parsed again for each caller, which may change it: a deep copy takes longer.
    loaded: dict[str, Any] = json.loads(_text(name))
    return loaded


def schema(name: str, plugins: Plugins, services: Services | None = None) -> dict[str, Any]:
    """Return one of `SCHEMA_NAMES`, with what the installed plugins add to it.

    Args:
        services: those that add their keys, all by default.

    Raises:
        KeyError: unknown schema.
    """
    if name not in SCHEMA_NAMES:
        raise KeyError(name)
    document = _load(name)
    properties, is_complete = document["properties"], services is None
    services = plugins.services if services is None else services
    if name == "server":
        sections = properties["plugins"]["properties"]
        for plugin, settings in plugins.settings_schemas.items():
            sections[plugin] = {
                "type": "object",
                "description": f"Settings of the plugin {plugin}.",
                "additionalProperties": False,
                "properties": copy.deepcopy(dict(settings)),
            }
    elif name == "services":
        for service_name, service in sorted(services.items()):
            if service.is_fallback:
                continue
            section = _load("service")
            section["description"] = f"The service {service.title}."
            if service.allows_cors:
                section["properties"]["cors"]["default"] = service.default_cors
            else:
                del section["properties"]["cors"]
            section["properties"].update(copy.deepcopy(dict(service.settings_schema)))
            properties[service_name] = section
        shared = properties["global"]["properties"]
        of_maps, of_tiles = (
            shared[key]["properties"]["formats"]["items"]["enum"] for key in ("map", "tile")
        )
        further = sorted(set(plugins.encoders).difference(of_maps))
        of_maps += further
        of_tiles += further
    elif name == "layer":
        for service_name, service in sorted(services.items()):
            if not (service.is_fallback or service.always_on):
                properties[service_name] = {
                    "description": f"Publication by the service {service_name}.",
                    **_load("switch"),
                }
            properties.update(copy.deepcopy(dict(service.layer_schema)))
        # Few layers have dimensions: what reads them is imported for those only.
        for table in plugins.dimensions.values() if is_complete else ():
            properties.update(copy.deepcopy(dict(table.layer_schema)))
    elif name == "pyramid":
        storage = properties["levels"]["items"]["properties"]["storage"]["properties"]
        # Drivers that no pyramid uses are not imported.
        for driver_name, field in sorted(plugins.storages.declared("container_field").items()):
            if field:
                storage[field] = {
                    "type": "string",
                    "description": f"Container of the slabs, for the type {driver_name.upper()}.",
                    "minLength": 1,
                }
    return document


class SchemaValidator(DocumentValidator):
    """Validator of documents of one kind.

    Args:
        name: kind of the documents, one of `SCHEMA_NAMES`.
        plugins: what they may name.
        services: those whose keys most documents have, all by default. Others are only imported
            for a document with further keys.
    """

    def __init__(self, name: str, plugins: Plugins, services: Services | None = None) -> None:
        self._name, self._plugins, self._is_complete = name, plugins, services is None
        super().__init__(schema(name, plugins, services))

    def validate(self, document: Any, file: str, faults: Faults) -> dict[str, Any] | None:
        """Return the document, or None if it has an error; all problems are recorded."""
        known = self._schema["properties"].keys()
        if not self._is_complete and isinstance(document, dict) and not document.keys() <= known:
            self._use(schema(self._name, self._plugins))
            self._is_complete = True
        return super().validate(document, file, faults)
