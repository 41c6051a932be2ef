"""GetCapabilities and DescribeCoverage of both versions."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from mastaba.api.web import Document, printable
from mastaba.errors import InvalidParameterError, MissingParameterError
from mastaba_ows import inspire
from mastaba_ows.parameters import items
from mastaba_ows.xml import local_name, read, serialized
from mastaba_wcs.capabilities100 import capabilities_100
from mastaba_wcs.capabilities201 import SECTIONS, capabilities_201
from mastaba_wcs.descriptions100 import descriptions_100
from mastaba_wcs.descriptions201 import descriptions
from mastaba_wcs.errors import EmptyCoverageListError
from mastaba_wcs.versions import Version, capabilities_version

if TYPE_CHECKING:
    from mastaba.api.services import ServiceSettings, Settings
    from mastaba.api.web import Request, Response
    from mastaba_wcs.parameters import Parameters
    from mastaba_wcs.published import PublishedCoverage, PublishedCoverages

_MEDIA_TYPE: Final = "text/xml"
# Clients request one or two of the possible combinations.
_CACHED_DOCUMENTS: Final = 4
_SECTION_NAMES: Final = {name.lower(): name for name in (*SECTIONS, "All")}
_MAX_TEXT: Final = 1000
_MAX_IDENTIFIERS: Final = 65_536


class Documents:
    """Answers requests for documents of one configuration; builds each on first request.

    Args:
        settings: of the service.
        general: settings common to all services.
        published: the coverages.
    """

    def __init__(
        self, settings: ServiceSettings, general: Settings, published: PublishedCoverages
    ) -> None:
        self._settings = settings
        self._general = general
        self._published = published
        self._complete = lru_cache(maxsize=3)(self._make_complete)
        self._extract = lru_cache(maxsize=_CACHED_DOCUMENTS)(self._make_extract)

    def capabilities(self, request: Request, parameters: Parameters) -> Response:
        """Return the capabilities, or 304 if the client has them already.

        Raises:
            VersionNegotiationError: the client accepts no supported version.
            InvalidParameterError: there is no such section.
        """
        version = capabilities_version(parameters)
        is_old = version is Version.V1_0_0
        is_inspire = not is_old and inspire.is_wanted(parameters, self._general.inspire)
        sections = None if is_old else _sections(parameters)
        if sections is None:
            document = self._complete(version, is_inspire)
        else:
            document = self._extract(sections, is_inspire)
        return document.respond(request, is_constant=sections is None)

    def descriptions(self, request: Request, parameters: Parameters, version: Version) -> Response:
        """Return the descriptions of the coverages that a request names.

        Raises:
            MissingParameterError: it names none.
            EmptyCoverageListError: its list is empty.
            NoSuchCoverageError: one does not exist.
        """
        if version is Version.V1_0_0:
            root = descriptions_100(self._named(parameters.only("COVERAGE"), "COVERAGE"))
        else:
            if "coverageid" not in parameters:
                raise MissingParameterError("the parameter COVERAGEID is missing", "coverageId")
            chosen = self._named(parameters.only("COVERAGEID"), "coverageId")
            if not chosen:
                raise EmptyCoverageListError("COVERAGEID names no coverage", "coverageId")
            root = descriptions(chosen)
        return Document(serialized(root), _MEDIA_TYPE).respond(request)

    def _named(self, text: str | None, parameter: str) -> list[PublishedCoverage]:
        """Return coverages by a list of names; in version 1.0.0, all without a name."""
        if text is None:
            return list(self._published.all) if parameter == "COVERAGE" else []
        if len(text) > _MAX_IDENTIFIERS:
            raise InvalidParameterError(f"{parameter} is too long", parameter)
        # The identifier of a layer may contain commas.
        whole = self._published.known(text)
        names = [text] if whole else dict.fromkeys(items(text))
        return list(dict.fromkeys(map(self._published.find, names)))

    def _make_complete(self, version: Version, is_inspire: bool) -> Document:
        settings, general, published = self._settings, self._general, self._published
        if version is Version.V1_0_0:
            root = capabilities_100(settings, general, published)
        else:
            root = capabilities_201(settings, general, published, is_inspire=is_inspire)
        return Document(serialized(root), _MEDIA_TYPE)

    def _make_extract(self, sections: frozenset[str], is_inspire: bool) -> Document:
        root = read(self._complete(Version.V2_0_1, is_inspire).body)
        for child in root:
            if local_name(child) not in sections:
                root.remove(child)
        return Document(serialized(root), _MEDIA_TYPE)


def _sections(parameters: Mapping[str, str]) -> frozenset[str] | None:
    """Return the requested sections; None for the whole document."""
    names = items(parameters.get("sections", "")[:_MAX_TEXT])
    found = set()
    for name in names:
        section = _SECTION_NAMES.get(name.lower())
        if section is None:
            raise InvalidParameterError(
                f"there is no section {printable(name)}; sections are {', '.join(SECTIONS)}",
                "sections",
            )
        found.add(section)
    return None if not found or "All" in found else frozenset(found)
