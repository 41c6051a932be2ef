"""POST bindings (wmts.md section 6): KVP requests from a form or an XML document."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import urlencode

from mastaba.api.web import Request, printable
from mastaba.errors import MissingParameterError, UnsupportedOperationError
from mastaba_ows.post import FORM, elements, form_parameters, read_request, text_of, texts

if TYPE_CHECKING:
    from mastaba_ows.xml import Element

_TILE_PARAMETERS: Final = (
    "Layer",
    "Style",
    "Format",
    "TileMatrixSet",
    "TileMatrix",
    "TileRow",
    "TileCol",
)
# Parameters with a list, and the paths of its items.
_LISTS: Final = (
    ("acceptversions", ("AcceptVersions", "Version")),
    ("sections", ("Sections", "Section")),
    ("acceptformats", ("AcceptFormats", "OutputFormat")),
)


def as_kvp(request: Request) -> Request:
    """Return the GET request that is equivalent to a POST request.

    Parameters in the body override those in the URL.

    Raises:
        RequestTooLargeError: the body is larger than 1 MiB.
        MissingParameterError: the body is neither a form nor XML (REQUEST is reported as missing,
            as the conformance suite requires).
        UnsupportedOperationError: the XML requests neither GetCapabilities nor GetTile.
    """
    body = request.body()
    if request.media_type == FORM or not (body or request.media_type):
        given = form_parameters(body)
    else:
        given = _xml_parameters(body)
    return Request("GET", request.path, urlencode({**request.query, **given}), request.environ)


def _xml_parameters(body: bytes) -> dict[str, str]:
    from mastaba_ows.xml import NotXMLError, local_name

    try:
        root = read_request(body)
    except NotXMLError:
        raise MissingParameterError("the body is not a WMTS request in XML", "request") from None
    parameters = {name: root.get(name, "") for name in ("service", "version")}
    parameters["request"] = local_name(root)
    if root.tag == "{http://www.opengis.net/wmts/1.0}GetTile":
        return parameters | _tile_parameters(root)
    if root.tag in (
        "{http://www.opengis.net/wmts/1.0}GetCapabilities",
        "{http://www.opengis.net/ows/1.1}GetCapabilities",
    ):
        del parameters["version"]
        lists = {name: texts(root, *path) for name, path in _LISTS}
        return parameters | {name: ",".join(items) for name, items in lists.items() if items}
    name = printable(parameters["request"])
    raise UnsupportedOperationError(f"{name} is not a WMTS request offered in XML", name)


def _tile_parameters(root: Element) -> dict[str, str]:
    parameters = {name.lower(): text for name in _TILE_PARAMETERS for text in texts(root, name)[:1]}
    for tag in ("DimensionNameValue", "VendorOption"):
        for option in elements(root, tag):
            if name := option.get("name"):
                parameters.setdefault(name.lower(), text_of(option))
    return parameters
