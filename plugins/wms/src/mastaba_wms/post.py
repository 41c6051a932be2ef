"""POST bindings (wms.md section 6): KVP parameters from a form or an XML document."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mastaba.api.web import Request, printable
from mastaba.errors import InvalidParameterError, UnsupportedOperationError
from mastaba_ows.errors import MediaTypeError
from mastaba_ows.parameters import flag
from mastaba_ows.post import FORM, elements, form_parameters, read_request, text_of, texts

if TYPE_CHECKING:
    from mastaba_ows.xml import Element

_XML: Final = ("", "text/xml", "application/xml")
# Parameters, and the paths of their elements. The last element counts.
_TEXTS: Final = (
    ("crs", ("CRS",)),
    ("width", ("Output", "Size", "Width")),
    ("height", ("Output", "Size", "Height")),
    ("format", ("Output", "Format")),
    ("bgcolor", ("Output", "BGcolor")),
    ("bgcolor", ("Output", "BGColor")),
    ("transparent", ("Output", "Transparent")),
    ("exceptions", ("Exceptions",)),
)


def parameters(request: Request) -> dict[str, str]:
    """Return the parameters of a POST request by lower-case name; the body overrides the URL.

    Raises:
        RequestTooLargeError: the body is larger than 1 MiB.
        MediaTypeError: the body is neither a form nor XML.
        InvalidParameterError: the XML cannot be read or contradicts itself.
        UnsupportedOperationError: the XML requests neither GetCapabilities nor GetMap, or styles
            or layers that the client defines.
    """
    body = request.body()
    if not body:
        return request.query
    media_type = request.media_type
    if media_type == FORM:
        given = form_parameters(body)
    elif media_type in _XML or media_type.endswith("+xml"):
        given = _xml_parameters(body)
    else:
        raise MediaTypeError(f"the body has an unknown type, {printable(media_type)}")
    return {**request.query, **given}


def _xml_parameters(body: bytes) -> dict[str, str]:
    from mastaba_ows.xml import NotXMLError, local_name

    try:
        root = read_request(body)
    except NotXMLError as error:
        raise InvalidParameterError(str(error)) from error
    operation = local_name(root)
    if operation not in ("GetCapabilities", "GetMap"):
        raise UnsupportedOperationError(
            f"the operation {printable(operation)} is not offered in XML", "REQUEST"
        )
    found = {"request": operation}
    found |= {name: root.get(name, "") for name in ("service", "version") if name in root.attrib}
    return found | _map_parameters(root) if operation == "GetMap" else found


def _map_parameters(root: Element) -> dict[str, str]:
    found = {name: text for name, path in _TEXTS for text in texts(root, *path)[:1]}
    if "transparent" in found:
        is_transparent = flag(found["transparent"], digits=True)
        if is_transparent is not None:
            found["transparent"] = str(is_transparent)
    options = elements(root, "Output", "VendorOption")
    if options:
        pairs = [f"{option.get('name', '')}:{text_of(option)}" for option in options]
        found["format_options"] = ";".join(pairs)
    return found | _layers(root) | _box(root, found.get("crs"))


def _layers(root: Element) -> dict[str, str]:
    """Return LAYERS and STYLES."""
    for name in ("UserStyle", "UserLayer"):
        if root.find(f".//{{*}}{name}") is not None:
            raise UnsupportedOperationError(
                f"{name} is not supported: layers and styles are those of the server", "SLD"
            )
    layers = elements(root, "StyledLayerDescriptor", "NamedLayer")
    if not layers:
        return {}
    names = ["".join(texts(layer, "Name")[-1:]) for layer in layers]
    styles = ["".join(texts(layer, "NamedStyle", "Name")[-1:]) for layer in layers]
    return {"layers": ",".join(names), "styles": ",".join(styles)}


def _box(root: Element, crs: str | None) -> dict[str, str]:
    """Return BBOX, and CRS if only the box contains it."""
    box = root.find("{*}BoundingBox")
    if box is None:
        return {}
    found: dict[str, str] = {}
    code = box.get("crs") or box.get("srs")
    if code and crs is None:
        found["crs"] = code
    elif code and crs is not None and code.upper() != crs.upper():
        raise InvalidParameterError("the box is in another CRS than the map", "BBOX")
    corners = texts(box, "LowerCorner")[:1] + texts(box, "UpperCorner")[:1]
    if corners:
        found["bbox"] = ",".join(",".join(corner.split()) for corner in corners)
    elif "minx" in box.attrib:
        found["bbox"] = ",".join(box.get(side, "") for side in ("minx", "miny", "maxx", "maxy"))
    return found
