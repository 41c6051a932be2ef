"""POST bindings (wms.md section 6): KVP parameters from a form or an XML document."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from mastaba.errors import InvalidParameterError, UnsupportedOperationError
from mastaba.web.request import Request, parse_query, printable
from mastaba.web.xml import Element, NotXMLError, read_elements
from mastaba_wms.errors import BindingError

_FORM: Final = "application/x-www-form-urlencoded"
_XML: Final = ("", "text/xml", "application/xml")
_LAYER: Final = ("StyledLayerDescriptor", "NamedLayer")
_FLAGS: Final = {"true": "TRUE", "1": "TRUE", "false": "FALSE", "0": "FALSE"}
# Paths of text elements, and the parameter for each.
_TEXTS: Final = (
    (("CRS",), "crs"),
    (("Output", "Size", "Width"), "width"),
    (("Output", "Size", "Height"), "height"),
    (("Output", "Format"), "format"),
    (("Output", "BGcolor"), "bgcolor"),
    (("Output", "BGColor"), "bgcolor"),
    (("Exceptions",), "exceptions"),
)


def parameters(request: Request) -> dict[str, str]:
    """Return the parameters of a POST request by lower-case name; the body overrides the URL.

    Raises:
        RequestTooLargeError: the body is larger than 1 MiB.
        BindingError: the body is neither a form nor XML.
        InvalidParameterError: the XML cannot be read or contradicts itself.
        UnsupportedOperationError: the XML requests something unsupported.
    """
    body = request.body()
    if not body:
        return request.query
    media_type = request.media_type
    if media_type == _FORM:
        # One character per byte, as in WSGI and the query string of a GET request.
        given = parse_query(body.decode("latin-1"))
    elif media_type in _XML or media_type.endswith("+xml"):
        given = xml_parameters(body)
    else:
        raise BindingError(f"the body is of an unknown type, {printable(media_type)}")
    return {**request.query, **given}


def xml_parameters(body: bytes) -> dict[str, str]:
    """Return the parameters present in an XML request, by lower-case name.

    Raises:
        InvalidParameterError: it cannot be read or contradicts itself.
        UnsupportedOperationError: neither GetCapabilities nor GetMap, or with styles or layers
            that the client defines.
    """
    try:
        elements = read_elements(body)
    except NotXMLError as error:
        raise InvalidParameterError(str(error)) from error
    root = elements[0]
    if root.name not in ("GetCapabilities", "GetMap"):
        raise UnsupportedOperationError(
            f"the operation {printable(root.name)} is not offered in XML", "REQUEST"
        )
    found = {"request": root.name}
    for name in ("service", "version"):
        if name in root.attributes:
            found[name] = root.attributes[name]
    if root.name == "GetMap":
        found |= _map_parameters(elements)
    return found


def _map_parameters(elements: Sequence[Element]) -> dict[str, str]:
    found: dict[str, str] = {}
    for path, name in _TEXTS:
        for text in _texts(elements, path)[:1]:
            found[name] = text
    for text in _texts(elements, ("Output", "Transparent"))[:1]:
        found["transparent"] = _FLAGS.get(text.lower(), text)
    options = [
        f"{element.attributes.get('name', '')}:{element.text}"
        for element in elements
        if element.path == ("Output", "VendorOption")
    ]
    if options:
        found["format_options"] = ";".join(options)
    return found | _layers(elements) | _box(elements, found.get("crs"))


def _texts(elements: Sequence[Element], path: tuple[str, ...]) -> list[str]:
    return [element.text for element in elements if element.path == path]


def _layers(elements: Sequence[Element]) -> dict[str, str]:
    """Return LAYERS and STYLES. In document order, a name belongs to the layer before it."""
    names: list[str] = []
    styles: list[str] = []
    for element in elements:
        if element.name in ("UserStyle", "UserLayer"):
            raise UnsupportedOperationError(
                f"{element.name} is not supported: layers and styles are those of the server", "SLD"
            )
        if element.path == _LAYER:
            names.append("")
            styles.append("")
        elif element.path == (*_LAYER, "Name"):
            names[-1] = element.text
        elif element.path == (*_LAYER, "NamedStyle", "Name"):
            styles[-1] = element.text
    if not names:
        return {}
    return {"layers": ",".join(names), "styles": ",".join(styles)}


def _box(elements: Sequence[Element], crs: str | None) -> dict[str, str]:
    """Return BBOX, and CRS if only the box contains it."""
    box = next((element for element in elements if element.path == ("BoundingBox",)), None)
    if box is None:
        return {}
    found: dict[str, str] = {}
    code = box.attributes.get("crs") or box.attributes.get("srs")
    if code and crs is None:
        found["crs"] = code
    elif code and crs is not None and code.upper() != crs.upper():
        raise InvalidParameterError("the box is in another CRS than the map", "BBOX")
    corners = [
        text
        for name in ("LowerCorner", "UpperCorner")
        for text in _texts(elements, ("BoundingBox", name))[:1]
    ]
    if corners:
        found["bbox"] = ",".join(",".join(corner.split()) for corner in corners)
    elif "minx" in box.attributes:
        sides = ("minx", "miny", "maxx", "maxy")
        found["bbox"] = ",".join(box.attributes.get(side, "") for side in sides)
    return found
