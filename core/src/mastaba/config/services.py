"""services.json (services-config.md)."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from mastaba.config.documents import DocumentReader
from mastaba.config.schema import SchemaValidator
from mastaba.model.crs import Equivalences, is_known_crs
from mastaba.model.layer import Metadata
from mastaba.model.settings import (
    CachingSettings,
    Contact,
    MapSettings,
    ServiceSettings,
    Settings,
    VirtualSettings,
)
from mastaba.plugins.manager import Plugins
from mastaba_documents.faults import FileFaults, UnusableError
from mastaba_storage.path import ResourcePath

if TYPE_CHECKING:
    from mastaba.services.base import Service

_COMMON = frozenset(
    ("enabled", "endpoint_uri", "root_path", "title", "abstract", "keywords", "metadata", "cors")
)
_OF_VIRTUAL = frozenset(("layers", "exclusive", "services", "title", "abstract", "keywords"))
_SHARED_BY_VIRTUAL = frozenset(
    ("provider", "site", "contact", "fee", "access_constraint", "inspire", "map", "caching")
)
_NO_ENCODER = "image/gif"
_ROK4_V6_KEYS = frozenset(("contact", "provider", "tiles", "ogctiles", "common"))
_ROK4_V6_KEYS_OF_MAPS = frozenset(("limits", "formats", "crs"))


class ServicesConfig(NamedTuple):
    """Contents of services.json: shared settings, and those of each enabled service.

    ``virtual`` contains the virtual services by name, and ``virtual_from`` makes further ones.
    """

    settings: Settings
    services: dict[str, ServiceSettings]
    virtual: Mapping[str, VirtualSettings] = {}
    virtual_from: Callable[..., VirtualSettings] = VirtualSettings


def load_services(
    path: ResourcePath, plugins: Plugins, reader: DocumentReader, named_by: str
) -> ServicesConfig:
    """Read services.json."""
    document, faults = reader.document(path, named_by), FileFaults(reader.faults, str(path))
    if _is_rok4_v6(document):
        remedy = f"convert it with: mastaba convert-services {faults.file} NEW"
        faults.refuse("$", "has the format of ROK4 version 6", remedy)
    _drop_foreign_sections(document, plugins, faults)
    named = document.pop("virtual", {}) if isinstance(document, dict) else {}
    raw = copy.deepcopy(document)
    # Without a section, only a fallback is enabled. The classes of others are not imported.
    keys = document if isinstance(document, dict) else {}
    classes = {
        name: plugins.services[name]
        for name, root_path in plugins.services.declared("default_root_path").items()
        if name in keys or root_path == "/"
    }
    validator = SchemaValidator("services", plugins, classes)
    found = _read(document, classes, validator, plugins, faults, reader)

    def virtual_from(
        name: str, section: Any, reader: DocumentReader, file: str, at: str = "$"
    ) -> VirtualSettings:
        noted = FileFaults(reader.faults, file)
        problem = _problem_of_virtual(name, section, found)
        if problem:
            noted.refuse(at, problem, "see docs/virtual-services.md")
        merged = copy.deepcopy(_merged(raw, name, section, found))
        own = _read(merged, classes, validator, plugins, noted, reader)
        # A list of services has no section.
        services = {
            key: replace(one, root_path=f"{one.root_path}/v/{name}")
            for key, one in own.services.items()
            if classes[key].is_fallback and key not in merged
        }
        services |= {key: one for key, one in own.services.items() if key in merged}
        exclusive = section.get("exclusive", False)
        return VirtualSettings(
            tuple(section["layers"]), exclusive, own.settings, services, f"/v/{name}"
        )

    virtual = {}
    if not isinstance(named, dict):
        faults.error("$.virtual", "must be an object", 'write {"partner": {"layers": ["PLAN_*"]}}')
        named = {}
    for name, section in named.items():
        with faults.attempt():
            virtual[name] = virtual_from(name, section, reader, faults.file, f"$.virtual.{name}")
    faults.require_usable()
    return found._replace(virtual=virtual, virtual_from=virtual_from)


def _problem_of_virtual(name: str, section: Any, main: ServicesConfig) -> str | None:
    """Return what is wrong with a virtual service that the schema of services.json cannot say."""
    if not re.fullmatch(r"[a-z0-9-]{1,32}", name):
        return "is not a valid name: 1 to 32 characters of a-z, 0-9 and the hyphen"
    if not isinstance(section, dict):
        return "must be an object"
    unknown = ", ".join(sorted(section.keys() - _OF_VIRTUAL - _SHARED_BY_VIRTUAL))
    if unknown:
        return f"has unknown keys: {unknown}"
    layers, services = section.get("layers"), section.get("services", {})
    if not isinstance(layers, list) or not layers or not all(isinstance(x, str) for x in layers):
        return "needs layers: a list of identifiers, patterns or keyword:WORD"
    if not isinstance(section.get("exclusive", False), bool):
        return "has a value of exclusive that is not true or false"
    if not isinstance(services, dict) or not all(isinstance(x, dict) for x in services.values()):
        return "needs services: an object of objects, which may be empty"
    missing = ", ".join(sorted(services.keys() - main.services.keys()))
    return f"names services that are not enabled: {missing}" if missing else None


def _merged(
    raw: dict[str, Any], name: str, section: dict[str, Any], main: ServicesConfig
) -> dict[str, Any]:
    """Return a virtual service as contents of a services.json of its own."""
    shared = dict(raw.get("global", {}))
    for key in _SHARED_BY_VIRTUAL & section.keys():
        value = section[key]
        is_partial = isinstance(value, dict) and isinstance(shared.get(key), dict)
        shared[key] = {**shared[key], **value} if is_partial else value
    described = {key: section[key] for key in ("title", "abstract", "keywords") if key in section}
    merged: dict[str, Any] = {"enabled": raw.get("enabled", True), "global": shared}
    for kind, own in section.get("services", {}).items():
        before = main.services[kind]
        place = {
            "enabled": True,
            "root_path": f"{before.root_path}/v/{name}",
            "endpoint_uri": f"{before.endpoint_uri}/v/{name}",
        }
        merged[kind] = {**raw.get(kind, {}), **described, **place, **own}
    return merged


def _read(
    document: Any,
    classes: Mapping[str, type[Service]],
    validator: SchemaValidator,
    plugins: Plugins,
    faults: FileFaults,
    reader: DocumentReader,
) -> ServicesConfig:
    """Return the settings in a document."""
    document = validator.validate(document, faults.file, reader.faults)
    if document is None:
        raise UnusableError
    validator.complete(document)
    shared = document["global"]
    tile_formats = _tile_formats(shared["tile"]["formats"], plugins, faults)
    equivalences = Equivalences()
    if "crs_equivalences" in shared:
        with faults.attempt():
            equivalences = _equivalences(shared.pop("crs_equivalences"), reader, faults.file)
    services = _services(document, classes, faults)
    faults.require_usable()
    cors = shared.pop("cors")
    settings = Settings(
        enabled=document["enabled"],
        contact=Contact(**shared["contact"]),
        caching=CachingSettings(**shared["caching"]),
        map=_map_settings(shared["map"], equivalences, faults),
        tile_reprojection=shared["tile"]["reprojection"],
        tile_formats=tile_formats,
        cors=tuple(cors) if isinstance(cors, list) else cors,
        equivalences=equivalences,
        # The names of settings outside sections are those of the attributes.
        **{key: value for key, value in shared.items() if not isinstance(value, dict)},
    )
    return ServicesConfig(settings, services)


def _is_rok4_v6(document: object) -> bool:
    """Say whether shared settings are beside the sections of services, or inside ``wms``."""
    if not isinstance(document, Mapping) or "global" in document:
        return False
    wms = document.get("wms")
    return not _ROK4_V6_KEYS.isdisjoint(document) or (
        isinstance(wms, Mapping) and not _ROK4_V6_KEYS_OF_MAPS.isdisjoint(wms)
    )


def _drop_foreign_sections(document: Any, plugins: Plugins, faults: FileFaults) -> None:
    """Remove the sections of services that are not installed; report those that are enabled.

    If plugins are broken, a service that is enabled may belong to one of them: an error.
    """
    known = {"global", *plugins.services}
    for name, section in list(document.items()) if isinstance(document, dict) else ():
        if name in known or not isinstance(section, dict) or "enabled" not in section:
            continue
        del document[name]
        if section["enabled"] is True and plugins.broken:
            reason = f"the service is enabled, but not available{plugins.services.left_out}"
            remedy = "repair the plugin that provides it, or set enabled to false"
            faults.error(f"$.{name}", reason, remedy)
        elif section["enabled"] is True:
            remedy = f"install its package (such as mastaba-{name}), or set enabled to false"
            faults.warning(f"$.{name}", "the service is enabled, but not installed", remedy)


def _services(
    document: dict[str, Any], classes: Mapping[str, type[Service]], faults: FileFaults
) -> dict[str, ServiceSettings]:
    found: dict[str, ServiceSettings] = {}
    places: dict[str, str] = {}
    for name, service in classes.items():
        section = document.get(name, {})
        if not (section.get("enabled", False) or service.is_fallback):
            continue
        settings = found[name] = _service_settings(service, section)
        try:
            urlsplit(settings.endpoint_uri)
        except ValueError:  # for example, an unclosed bracket
            faults.error(f"$.{name}.endpoint_uri", "is not a valid address", "correct it")
        other = name if service.is_fallback else places.setdefault(settings.root_path, name)
        if other != name:
            reason = f"is also the root path of {other}; only one of them answers there"
            faults.warning(f"$.{name}.root_path", reason, "give each service its own root path")
    return found


def _service_settings(service: type[Service], section: dict[str, Any]) -> ServiceSettings:
    name = service.name
    usual = service.default_root_path or f"/{name}"
    root_path = section.get("root_path", usual).strip("/")
    metadata, cors = section.get("metadata"), section.get("cors", service.default_cors)
    return ServiceSettings(
        endpoint_uri=section.get("endpoint_uri", f"http://localhost{usual}").removesuffix("/"),
        root_path=f"/{root_path}" if root_path else "",
        title=section.get("title", service.title),
        abstract=section.get("abstract", service.title),
        keywords=tuple(section.get("keywords", ())),
        metadata=None if metadata is None else load_metadata(metadata),
        own={key: value for key, value in section.items() if key not in _COMMON},
        cors=tuple(cors) if isinstance(cors, list) else cors,
    )


def load_metadata(document: dict[str, Any]) -> Metadata:
    return Metadata(document["format"], document["url"], document["type"])


def _map_settings(
    document: dict[str, Any], equivalences: Equivalences, faults: FileFaults
) -> MapSettings:
    limits, listed, reprojection = document["limits"], document["crs"], document["reprojection"]
    formats = tuple(dict.fromkeys(document["formats"]))
    if _NO_ENCODER in formats:
        reason = f"{_NO_ENCODER} cannot be written, it is not offered"
        faults.warning("$.global.map.formats", reason, "remove it")
        formats = tuple(item for item in formats if item != _NO_ENCODER)
    if listed and not reprojection:
        remedy = "remove it, or set global.map.reprojection to true"
        faults.warning("$.global.map.crs", "has no effect without reprojection", remedy)
    return MapSettings(
        reprojection=reprojection,
        formats=formats,
        crs=_offered_crs(listed, equivalences, faults) if reprojection else (),
        max_layers=limits["layers_count"],
        max_width=limits["width"],
        max_height=limits["height"],
        max_tiles_x=limits["tile_x"],
        max_tiles_y=limits["tile_y"],
        max_pixels=limits.get("pixels", limits["width"] * limits["height"]),
        max_source_bytes=1024**2 * limits["source_mebibytes"],
    )


def _tile_formats(listed: Iterable[str], plugins: Plugins, faults: FileFaults) -> tuple[str, ...]:
    """Return the listed media types. Encoders of the default ones are not imported."""
    usual = Settings().tile_formats
    for position, media_type in enumerate(listed):
        if media_type not in usual and not plugins.encoders[media_type].is_picture:
            reason = f"{media_type} is not a format of pictures"
            faults.error(f"$.global.tile.formats[{position}]", reason, "remove it")
    return tuple(dict.fromkeys(listed))


def _offered_crs(
    listed: Iterable[str], equivalences: Equivalences, faults: FileFaults
) -> tuple[str, ...]:
    """Return the listed codes, each followed by its equivalents; CRS:84 is always included."""
    offered: dict[str, None] = {}
    for position, code in enumerate(listed):
        if is_known_crs(code):
            offered |= dict.fromkeys((code.upper(), *equivalences.declared(code)))
        else:
            reason = f"the CRS {code!r} is unknown, it is skipped"
            remedy = "write AUTHORITY:CODE, as in EPSG:3857"
            faults.warning(f"$.global.map.crs[{position}]", reason, remedy)
    offered["CRS:84"] = None
    return tuple(offered)


def _equivalences(path: str, reader: DocumentReader, file: str) -> Equivalences:
    named_by = f"global.crs_equivalences of {file}"
    document = reader.document(ResourcePath("file", "", path), named_by)
    faults = FileFaults(reader.faults, path)
    if not isinstance(document, dict) or not all(
        isinstance(others, list) and all(isinstance(other, str) for other in others)
        for others in document.values()
    ):
        remedy = 'write {"IGNF:LAMB93": ["EPSG:2154"]}'
        faults.refuse("$", "must be an object of lists of strings", remedy)
    unknown: dict[str, None] = {}
    known: dict[str, list[str]] = {}
    for code, others in document.items():
        unknown |= dict.fromkeys(item for item in (code, *others) if not is_known_crs(item))
        if code not in unknown:
            known[code] = [other for other in others if other not in unknown]
    if unknown:
        # One line: existing files list dozens of vertical CRSs that PROJ does not know.
        reason = f"unknown to the projection library, skipped: {', '.join(unknown)}"
        faults.warning("$", reason, "no action is needed if no client uses these codes")
    return Equivalences(known)
