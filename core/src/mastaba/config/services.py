"""services.json (services-config.md)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from mastaba.config.documents import DocumentReader
from mastaba.config.faults import Faults
from mastaba.config.generation6 import is_generation6, to_generation7
from mastaba.config.schema import SchemaValidator
from mastaba.model.crs import Equivalences, is_known_crs
from mastaba.model.layer import Metadata
from mastaba.model.settings import Contact, MapSettings, ServiceSettings, Settings
from mastaba.storage.path import ResourcePath

if TYPE_CHECKING:
    from mastaba.plugins.manager import Plugins
    from mastaba.services.base import Service

_COMMON = frozenset(
    ("enabled", "endpoint_uri", "root_path", "title", "abstract", "keywords", "metadata")
)
_PLAIN = ("provider", "site", "fee", "access_constraint", "inspire", "default_style")
_NO_ENCODER = "image/gif"


@dataclass(frozen=True, slots=True)
class ServicesConfig:
    """Contents of services.json: shared settings, and those of each enabled service."""

    settings: Settings
    services: dict[str, ServiceSettings]


def load_services(
    path: ResourcePath, plugins: Plugins, reader: DocumentReader, named_by: str
) -> ServicesConfig | None:
    """Read services.json; return None after recording a problem.

    Args:
        named_by: key and file that name it.
    """
    document, file, faults = reader.document(path, named_by), str(path), reader.faults
    if document is None:
        return None
    if is_generation6(document):
        document = _converted(document, file, faults)
    _drop_foreign_sections(document, plugins, file, faults)
    validator = SchemaValidator("services", plugins)
    document = validator.validate(document, file, faults)
    if document is None:
        return None
    validator.complete(document)
    shared = document["global"]
    equivalences = _equivalences(shared.get("crs_equivalences"), reader, file)
    services = _services(document, plugins, file, faults)
    if equivalences is None or services is None:
        return None
    cors = shared["cors"]
    settings = Settings(
        enabled=document["enabled"],
        contact=Contact(**shared["contact"]),
        map=_map_settings(shared["map"], equivalences, file, faults),
        tile_reprojection=shared["tile"]["reprojection"],
        cors=tuple(cors) if isinstance(cors, list) else cors,
        equivalences=equivalences,
        **{key: shared[key] for key in _PLAIN},
    )
    return ServicesConfig(settings, services)


def _converted(document: dict[str, Any], file: str, faults: Faults) -> dict[str, Any]:
    """Convert a document from generation 6 to generation 7."""
    faults.warning(
        file,
        "$",
        "is of generation 6; it is used as if converted, and further paths are of that form",
        f"mastaba convert-services {file} NEW writes the converted file",
    )
    converted, notes = to_generation7(document)
    for note in notes:
        if note.is_lost:
            faults.warning(file, note.path, note.text, "remove it")
    return converted


def _drop_foreign_sections(document: Any, plugins: Plugins, file: str, faults: Faults) -> None:
    """Remove the sections of services that are not installed; warn if one is enabled."""
    if not isinstance(document, dict):
        return
    for name, section in list(document.items()):
        if name in plugins.services or not isinstance(section, dict) or "enabled" not in section:
            continue
        del document[name]
        if section["enabled"] is True:
            faults.warning(
                file,
                f"$.{name}",
                "the service is enabled, but not installed",
                f"install its package (such as mastaba-{name}), or set enabled to false",
            )


def _services(
    document: dict[str, Any], plugins: Plugins, file: str, faults: Faults
) -> dict[str, ServiceSettings] | None:
    found: dict[str, ServiceSettings] = {}
    usable = True
    for name, service in plugins.services.items():
        section = document.get(name, {})
        if section.get("enabled", False) or service.is_fallback:
            found[name] = _service_settings(service, section)
    places: dict[str, str] = {}
    for name, settings in found.items():
        if not _is_address(settings.endpoint_uri):
            faults.error(file, f"$.{name}.endpoint_uri", "is not a valid address", "correct it")
            usable = False
        if plugins.services[name].is_fallback:
            continue
        other = places.setdefault(settings.root_path, name)
        if other != name:
            faults.warning(
                file,
                f"$.{name}.root_path",
                f"is also the root path of {other}; only one of them answers there",
                "give each service its own root path",
            )
    return found if usable else None


def _is_address(uri: str) -> bool:
    try:
        urlsplit(uri)
    except ValueError:  # for example, an unclosed bracket
        return False
    return True


def _service_settings(service: type[Service], section: dict[str, Any]) -> ServiceSettings:
    name = service.name
    root_path = section.get("root_path", service.default_root_path or f"/{name}").strip("/")
    metadata = section.get("metadata")
    return ServiceSettings(
        endpoint_uri=section.get("endpoint_uri", f"http://localhost/{name}").removesuffix("/"),
        root_path=f"/{root_path}" if root_path else "",
        title=section.get("title", service.title),
        abstract=section.get("abstract", service.title),
        keywords=tuple(section.get("keywords", ())),
        metadata=None if metadata is None else load_metadata(metadata),
        own={key: value for key, value in section.items() if key not in _COMMON},
    )


def load_metadata(document: dict[str, Any]) -> Metadata:
    return Metadata(document["format"], document["url"], document["type"])


def _map_settings(
    document: dict[str, Any], equivalences: Equivalences, file: str, faults: Faults
) -> MapSettings:
    limits, listed, reprojection = document["limits"], document["crs"], document["reprojection"]
    formats = tuple(dict.fromkeys(document["formats"]))
    if _NO_ENCODER in formats:
        faults.warning(
            file,
            "$.global.map.formats",
            f"{_NO_ENCODER} cannot be written, it is not offered",
            "remove it",
        )
        formats = tuple(item for item in formats if item != _NO_ENCODER)
    if listed and not reprojection:
        faults.warning(
            file,
            "$.global.map.crs",
            "has no effect without reprojection",
            "remove it, or set global.map.reprojection to true",
        )
    return MapSettings(
        reprojection=reprojection,
        formats=formats,
        crs=_offered_crs(listed, equivalences, file, faults) if reprojection else (),
        max_layers=limits["layers_count"],
        max_width=limits["width"],
        max_height=limits["height"],
        max_tiles_x=limits["tile_x"],
        max_tiles_y=limits["tile_y"],
        max_pixels=limits.get("pixels", limits["width"] * limits["height"]),
        max_source_bytes=1024**2 * limits["source_mebibytes"],
    )


def _offered_crs(
    listed: Iterable[str], equivalences: Equivalences, file: str, faults: Faults
) -> tuple[str, ...]:
    """Return the listed codes, each followed by its equivalents; CRS:84 is always included."""
    offered: dict[str, None] = {}
    for position, code in enumerate(listed):
        if is_known_crs(code):
            offered[code.upper()] = None
            offered.update(dict.fromkeys(filter(is_known_crs, equivalences.declared(code))))
        else:
            faults.warning(
                file,
                f"$.global.map.crs[{position}]",
                f"the CRS {code!r} is unknown, it is skipped",
                "write AUTHORITY:CODE, as in EPSG:3857",
            )
    offered["CRS:84"] = None
    return tuple(offered)


def _equivalences(path: str | None, reader: DocumentReader, file: str) -> Equivalences | None:
    """Read the file of CRS equivalences; return None after recording a problem."""
    if path is None:
        return Equivalences()
    named_by = f"global.crs_equivalences of {file}"
    document = reader.document(ResourcePath("file", "", path), named_by)
    if document is None:
        return None
    if not isinstance(document, dict) or not all(
        isinstance(others, list) and all(isinstance(other, str) for other in others)
        for others in document.values()
    ):
        reader.faults.error(
            path,
            "$",
            "must be an object of lists of strings",
            'write {"IGNF:LAMB93": ["EPSG:2154"]}',
        )
        return None
    unknown: dict[str, None] = {}
    known: dict[str, list[str]] = {}
    for code, others in document.items():
        unknown |= dict.fromkeys(item for item in (code, *others) if not is_known_crs(item))
        if code not in unknown:
            known[code] = [other for other in others if other not in unknown]
    if unknown:
        # One line: existing files list dozens of vertical CRSs that PROJ does not know.
        reader.faults.warning(
            path,
            "$",
            f"unknown to the projection library, skipped: {', '.join(unknown)}",
            "no action is needed if no client uses these codes",
        )
    return Equivalences(known)
