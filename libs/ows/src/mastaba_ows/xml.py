"""XML documents, written and read with lxml.

Importing this module loads lxml. Modules that every process loads import it on first use.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import copy
from typing import Any, Final, TypeAlias

from lxml import etree

from mastaba.api.web import legal

Element: TypeAlias = etree._Element
"""An element of lxml."""

XLINK: Final = "{http://www.w3.org/1999/xlink}"
"""Prefix of names in the namespace XLink."""
XSI: Final = "{http://www.w3.org/2001/XMLSchema-instance}"
"""Prefix of names in the namespace of XML Schema for instances."""

# A document may leave the declaration of this prefix to lxml.
etree.register_namespace("xlink", XLINK.strip("{}"))

_DECLARATION: Final = '<?xml version="1.0" encoding="UTF-8"?>\n'


class NotXMLError(ValueError):
    """The text is not well-formed XML, has a DOCTYPE, or exceeds a limit."""


def root_element(
    name: str,
    attributes: Mapping[str, str] | None = None,
    namespaces: Mapping[Any, str] | None = None,
) -> Element:
    """Return the root of a new document.

    Args:
        name: as in `add`.
        namespaces: URIs by prefix; None is the prefix of the default namespace.
    """
    return etree.Element(name, _legal(attributes), nsmap=namespaces)


def add(
    parent: Element, name: str, text: str = "", attributes: dict[str, str] | None = None
) -> Element:
    """Append an element and return it.

    Characters that are illegal in XML 1.0 become U+FFFD.

    Args:
        name: local name after the namespace URI in braces, as in lxml.
        attributes: by name in the same form.
    """
    try:
        element = etree.SubElement(parent, name, attributes)
    except ValueError:  # lxml checks every text
        element = etree.SubElement(parent, name, _legal(attributes))
    if text:
        try:
            element.text = text
        except ValueError:
            element.text = legal(text)
    return element


def record(name: str, *children: str) -> Element:
    """Return an element with empty children for `add_copy`."""
    element = etree.Element(name)
    for child in children:
        etree.SubElement(element, child)
    return element


def add_copy(parent: Element, source: Element, *texts: str) -> Element:
    """Append a copy of a record and return it. Three times as fast as adding each element.

    Args:
        texts: of the children, in order.
    """
    element = copy(source)
    parent.append(element)
    try:
        for child, text in zip(element, texts, strict=True):
            child.text = text
    except ValueError:
        for child, text in zip(element, texts, strict=True):
            child.text = legal(text)
    return element


def add_filled(parent: Element, *texts: tuple[str, str]) -> None:
    """Append an element for each name and text, except for empty texts."""
    for name, text in texts:
        if text:
            add(parent, name, text)


def add_list(parent: Element, name: str, item: str, texts: Iterable[str]) -> None:
    """Append an element with one child for each text; nothing without texts."""
    texts = list(texts)
    if texts:
        found = add(parent, name)
        for text in texts:
            add(found, item, text)


def serialized(
    root: Element, *, doctype: str = "", declared: bool = True, indented: bool = False
) -> bytes:
    """Return a document in UTF-8.

    Args:
        doctype: complete declaration, or an empty string.
        declared: whether to begin with an XML declaration.
    """
    body = etree.tostring(root, encoding="UTF-8", pretty_print=indented)
    assert isinstance(body, bytes)
    prolog = (_DECLARATION if declared else "") + (f"{doctype}\n" if doctype else "")
    return prolog.encode() + body


def read(body: bytes, *, most_tags: int | None = None) -> Element:
    """Return the root of a document from outside, without comments and instructions.

    No entity is replaced and nothing else is loaded. libxml2 limits depth and sizes.

    Args:
        most_tags: bound for the number of tags, and with it for the memory of the tree.

    Raises:
        NotXMLError: it is not well-formed, has a DOCTYPE, or exceeds a limit.
    """
    if most_tags is not None and body.count(b"<") > most_tags:
        raise NotXMLError("the document has too many elements")
    # In UTF-16 and UTF-32 each character is surrounded by zeros.
    if b"<!DOCTYPE" in body.replace(b"\0", b""):
        raise NotXMLError("a DOCTYPE is not allowed")
    parser = etree.XMLParser(
        resolve_entities=False,
        load_dtd=False,
        no_network=True,
        huge_tree=False,
        remove_comments=True,
        remove_pis=True,
    )
    try:
        root = etree.fromstring(body, parser)
    except (etree.XMLSyntaxError, LookupError, ValueError) as error:
        raise NotXMLError("the document is not well-formed XML") from error
    # For encodings in which ASCII is written with other bytes.
    if root.getroottree().docinfo.internalDTD is not None:
        raise NotXMLError("a DOCTYPE is not allowed")
    return root


def local_name(element: Element) -> str:
    """Return the name of an element without its namespace."""
    return etree.QName(element).localname


def _legal(attributes: Mapping[str, str] | None) -> dict[str, str]:
    return {name: legal(value) for name, value in (attributes or {}).items()}
