"""XML requests, read safely: no DOCTYPE, no tree, limited size.

A DOCTYPE is refused before any of its declarations is read. Without one, XML has neither
entities nor references to other documents.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from xml.parsers import expat

_MAX_ELEMENTS: Final = 1000
_MAX_DEPTH: Final = 32


class NotXMLError(ValueError):
    """The text is not well-formed, has a DOCTYPE, or is far too large for a request."""


@dataclass(frozen=True, slots=True)
class Element:
    """One element of a document.

    Attributes:
        path: local names from the child of the root to this element; empty for the root.
        name: local name.
        namespace: URI; empty if there is none.
        attributes: by local name, also those in a namespace.
        text: text of the element without that of its children, stripped.
    """

    path: tuple[str, ...]
    name: str
    namespace: str
    attributes: dict[str, str]
    text: str


def read_elements(body: bytes) -> list[Element]:
    """Return all elements of a document in document order, the root first.

    Raises:
        NotXMLError: the document is not valid XML, or is refused.
    """
    reader = _Reader()
    parser = expat.ParserCreate(namespace_separator=" ")
    parser.buffer_text = True
    parser.StartElementHandler = reader.start
    parser.EndElementHandler = reader.end
    parser.CharacterDataHandler = reader.characters
    parser.StartDoctypeDeclHandler = reader.doctype
    try:
        parser.Parse(body, True)
    except (expat.ExpatError, LookupError, ValueError) as error:
        raise NotXMLError("the body is not a request in XML") from error
    return reader.elements()


class _Reader:
    def __init__(self) -> None:
        self._found: list[tuple[tuple[str, ...], str, str, dict[str, str], list[str]]] = []
        self._open: list[list[str]] = []
        self._path: list[str] = []

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        if len(self._found) == _MAX_ELEMENTS or len(self._open) == _MAX_DEPTH:
            raise NotXMLError("too many elements")
        namespace, _, name = tag.rpartition(" ")
        if self._open:
            self._path.append(name)
        named = {key.rpartition(" ")[2]: value for key, value in attributes.items()}
        parts: list[str] = []
        self._found.append((tuple(self._path), name, namespace, named, parts))
        self._open.append(parts)

    def characters(self, text: str) -> None:
        self._open[-1].append(text)

    def end(self, tag: str) -> None:
        self._open.pop()
        if self._path:
            self._path.pop()

    def doctype(self, *declared: object) -> None:
        raise NotXMLError("a DOCTYPE is not allowed")

    def elements(self) -> list[Element]:
        return [
            Element(path, name, namespace, attributes, "".join(parts).strip())
            for path, name, namespace, attributes, parts in self._found
        ]
