"""Requests in the body of a POST: a form or an XML document."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeVar

from mastaba.api.web import Request, parse_query
from mastaba.errors import ClientGoneError, RequestError

if TYPE_CHECKING:
    from mastaba_ows.xml import Element

FORM: Final = "application/x-www-form-urlencoded"
"""Media type of a form."""

_T = TypeVar("_T")

_MAX_ELEMENTS: Final = 1000
_MAX_DEPTH: Final = 32


def read_once(request: Request, key: str, read: Callable[[Request], _T]) -> _T:
    """Return what is read from a request, which its WSGI environment keeps under a key.

    Raises the errors of the function, also if it was called by `readable`.
    """
    environ = request.environ
    found: _T | None = environ.get(key)
    if found is None:
        fault: Exception | None = environ.pop(_fault_of(key), None)
        if fault is not None:
            raise fault
        found = environ[key] = read(request)
    return found


def readable(request: Request, key: str, read: Callable[[Request], _T]) -> _T | None:
    """Return the same, or None if the request is invalid or its client has gone."""
    environ, fault = request.environ, _fault_of(key)
    if fault in environ:
        return None
    try:
        return read_once(request, key, read)
    except (RequestError, ClientGoneError) as error:
        # Its frames know the environment: a cycle, which only the garbage collector would end.
        error.__cause__ = error.__context__ = None
        environ[fault] = error.with_traceback(None)
        return None


def _fault_of(key: str) -> str:
    return f"{key}.fault"


def form_parameters(body: bytes) -> dict[str, str]:
    """Return the parameters in a form, as `parse_query` does."""
    # One character per byte, as in WSGI and the query string of a GET request.
    return parse_query(body.decode("latin-1"))


def read_request(body: bytes) -> Element:
    """Return the root of an XML request.

    Raises:
        NotXMLError: as in `xml.read`, or it has too many or too deeply nested elements.
    """
    # Loaded on first use: most requests are not XML.
    from mastaba_ows.xml import NotXMLError, read

    # Comments may contain tags too.
    root = read(body, most_tags=4 * _MAX_ELEMENTS)
    count = sum(1 for _ in root.iter())
    if count > _MAX_ELEMENTS or root.find("/".join("*" * _MAX_DEPTH)) is not None:
        raise NotXMLError("the document has too many elements")
    return root


def elements(root: Element, *path: str) -> list[Element]:
    """Return all elements at a path of local names below the root, in any namespace."""
    return root.findall("/".join(f"{{*}}{name}" for name in path))


def texts(root: Element, *path: str) -> list[str]:
    """Return the texts of these elements, stripped and without the texts of children."""
    return [text_of(element) for element in elements(root, *path)]


def text_of(element: Element) -> str:
    """Return the text of an element, stripped and without the texts of children."""
    return "".join([element.text or "", *(child.tail or "" for child in element)]).strip()
