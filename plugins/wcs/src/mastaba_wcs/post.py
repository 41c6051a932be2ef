"""POST bindings: a form, or an XML document (OGC 09-148r1 and the extensions)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from mastaba.api.web import Request, printable
from mastaba.errors import UnsupportedOperationError
from mastaba_ows.errors import MediaTypeError
from mastaba_ows.post import FORM, elements, read_request, text_of, texts
from mastaba_wcs.errors import EncodingSyntaxError
from mastaba_wcs.parameters import Operation, Parameters, query_parameters

if TYPE_CHECKING:
    from mastaba_ows.xml import Element

_XML: Final = ("", "text/xml", "application/xml")
_SOAP: Final = "http://www.w3.org/2003/05/soap-envelope"
# Parameters with a list, and the paths of its items.
_LISTS: Final = (
    ("acceptversions", ("AcceptVersions", "Version")),
    ("sections", ("Sections", "Section")),
    ("acceptformats", ("AcceptFormats", "OutputFormat")),
)
_GEOTIFF: Final = "http://www.opengis.net/gmlcov/geotiff/1.0"


def parameters(request: Request) -> Parameters:
    """Return the parameters of a POST request; the body overrides the URL.

    Raises:
        RequestTooLargeError: the body is larger than 1 MiB.
        MediaTypeError: the body is neither a form nor XML.
        EncodingSyntaxError: the XML cannot be read, or is not a request of WCS 2.0.
        UnsupportedOperationError: the XML requests another operation, or is SOAP.
    """
    of_url = query_parameters(request.query_string)
    body = request.body()
    if not body:
        return of_url
    media_type = request.media_type
    if media_type == FORM:
        # One character per byte, as in the query string of a GET request.
        return query_parameters(body.decode("latin-1")).over(of_url)
    if media_type in _XML or media_type.endswith("+xml"):
        return Parameters(_pairs(body)).over(of_url)
    raise MediaTypeError(f"the body has an unknown type, {printable(media_type)}")


def _pairs(body: bytes) -> Iterator[tuple[str, str]]:
    """Yield the parameters of KVP that request the same as a document."""
    from mastaba_ows.xml import NotXMLError, local_name

    try:
        root = read_request(body)
    except NotXMLError as error:
        raise EncodingSyntaxError(str(error), "body") from error
    name = local_name(root)
    if str(root.tag) == f"{{{_SOAP}}}Envelope":
        raise UnsupportedOperationError("SOAP is not offered: send the request itself", name)
    if name not in tuple(Operation):
        raise EncodingSyntaxError(f"{printable(name)} is not a request of WCS", name)
    yield "request", name
    for attribute in ("service", "version"):
        value = root.get(attribute)
        if value is not None:
            yield attribute, value
    if name == Operation.GET_CAPABILITIES:
        for parameter, path in _LISTS:
            items = texts(root, *path)
            if items:
                yield parameter, ",".join(items)
        return
    identifiers = texts(root, "CoverageId")
    if not identifiers:
        raise EncodingSyntaxError("the element CoverageId is missing", "CoverageId")
    if name == Operation.DESCRIBE_COVERAGE:
        yield "coverageid", ",".join(identifiers)
        return
    for identifier in identifiers:
        yield "coverageid", identifier
    yield from _subsets(root)
    for parameter in ("format", "mediaType"):
        for text in texts(root, parameter):
            yield parameter, text
    for extension in elements(root, "Extension"):
        yield from _crs(extension)
        yield from _scaling(extension)
        yield from _fields(extension)
        yield from _interpolation(extension)
        yield from _geotiff(extension)


def _subsets(root: Element) -> Iterator[tuple[str, str]]:
    for trim in elements(root, "DimensionTrim"):
        low, high = _text(trim, "TrimLow", "*"), _text(trim, "TrimHigh", "*")
        yield "subset", f"{_text(trim, 'Dimension')}({low},{high})"
    for cut in elements(root, "DimensionSlice"):
        yield "subset", f"{_text(cut, 'Dimension')}({_text(cut, 'SlicePoint')})"


def _crs(extension: Element) -> Iterator[tuple[str, str]]:
    # Some clients write the two elements without the one around them.
    for name in ("subsettingCrs", "outputCrs"):
        for text in texts(extension, "GetCoverageCrs", name) + texts(extension, name):
            yield name, text


def _scaling(extension: Element) -> Iterator[tuple[str, str]]:
    # The schema has one more element around them than the standard.
    for part in (extension, *elements(extension, "Scaling")):
        for text in texts(part, "ScaleByFactor", "scaleFactor"):
            yield "scalefactor", text
        for found in elements(part, "ScaleAxesByFactor"):
            axes = elements(found, "ScaleAxis")
            yield "scaleaxes", _joined(axes, "scaleFactor")
        for found in elements(part, "ScaleToSize"):
            yield "scalesize", _joined(elements(found, "TargetAxisSize"), "targetSize")
        for found in elements(part, "ScaleToExtent"):
            axes = elements(found, "TargetAxisExtent")
            yield "scaleextent", _joined(axes, "low", "high")


def _joined(axes: list[Element], *names: str) -> str:
    values = (":".join(_text(axis, name) for name in names) for axis in axes)
    names_of_axes = (_text(axis, "axis") for axis in axes)
    return ",".join(f"{axis}({value})" for axis, value in zip(names_of_axes, values, strict=True))


def _fields(extension: Element) -> Iterator[tuple[str, str]]:
    # Written in both letter cases, by the schema and by the standard.
    for name in ("rangeSubset", "RangeSubset"):
        for subset in elements(extension, name):
            items = []
            for item in (*elements(subset, "rangeItem"), *elements(subset, "RangeItem")):
                for kind in ("rangeComponent", "RangeComponent"):
                    items += texts(item, kind)
                for kind in ("rangeInterval", "RangeInterval"):
                    for interval in elements(item, kind):
                        ends = _text(interval, "startComponent"), _text(interval, "endComponent")
                        items.append(":".join(ends))
            yield "rangesubset", ",".join(items)


def _interpolation(extension: Element) -> Iterator[tuple[str, str]]:
    for found in elements(extension, "Interpolation"):
        for text in texts(found, "globalInterpolation"):
            yield "interpolation", text
        axes = elements(found, "InterpolationAxes", "InterpolationAxis")
        for axis in (*axes, *elements(found, "InterpolationPerAxis")):
            method = _text(axis, "interpolationMethod")
            yield "interpolation", method or axis.get("interpolationMethod", "")


def _geotiff(extension: Element) -> Iterator[tuple[str, str]]:
    from mastaba_ows.xml import local_name

    for option in extension.findall(f".//{{{_GEOTIFF}}}*"):
        if not len(option):
            yield f"geotiff:{local_name(option)}", text_of(option)


def _text(element: Element, name: str, default: str = "") -> str:
    return "".join(texts(element, name)[:1]) or default
