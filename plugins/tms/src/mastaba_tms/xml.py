"""Small helpers for the XML documents of this package."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from lxml import etree

from mastaba.web.markup import legal
from mastaba.web.response import Document

if TYPE_CHECKING:
    from mastaba.model.layer import Metadata

MEDIA_TYPE: Final = "text/xml"


def printable_xml(text: str) -> str:
    """Return a text with each character that XML 1.0 forbids replaced with ``_``."""
    return legal(text, "_")


def add(
    parent: etree._Element, name: str, text: str | None = None, /, **attributes: str
) -> etree._Element:
    """Append an element. In attribute names, ``_`` is replaced with ``-``."""
    element = etree.SubElement(
        parent,
        name,
        {key.replace("_", "-"): printable_xml(value) for key, value in attributes.items()},
    )
    if text is not None:
        element.text = printable_xml(text)
    return element


def add_text(parent: etree._Element, name: str, text: str) -> None:
    """Append an element with a text unless the text is empty."""
    if text:
        add(parent, name, text)


def add_keywords(parent: etree._Element, keywords: Iterable[str]) -> None:
    """Append ``KeywordList``: one element, words separated by spaces (TMS 1.0.0)."""
    add_text(parent, "KeywordList", " ".join(keywords))


def add_metadata(parent: etree._Element, metadata: Metadata) -> None:
    """Append ``Metadata``."""
    add(
        parent,
        "Metadata",
        type=metadata.type,
        mime_type=metadata.media_type,
        href=metadata.url,
    )


def document(root: etree._Element, *, declared: bool = True) -> Document:
    """Return a complete document, ready to send.

    Args:
        root: the root element.
        declared: whether to begin with an XML declaration.
    """
    text = etree.tostring(root, xml_declaration=declared, encoding="UTF-8", pretty_print=True)
    return Document(text, MEDIA_TYPE)
