"""XML documents, written and read, and requests in XML."""

from __future__ import annotations

from itertools import pairwise

import pytest
from lxml import etree

from mastaba_ows.post import read_request, texts
from mastaba_ows.xml import (
    XLINK,
    NotXMLError,
    add,
    add_copy,
    add_filled,
    add_list,
    local_name,
    read,
    record,
    root_element,
    serialized,
)


def test_document_has_a_declaration_a_doctype_and_its_namespaces() -> None:
    root = root_element("{urn:a}r", {"v": "1"}, {None: "urn:a", "b": "urn:b"})
    add(root, "{urn:b}c", "é")
    assert serialized(root, doctype="<!DOCTYPE r>").decode() == (
        '<?xml version="1.0" encoding="UTF-8"?>\n<!DOCTYPE r>\n'
        '<r xmlns="urn:a" xmlns:b="urn:b" v="1"><b:c>é</b:c></r>'
    )


def test_prefix_of_links_is_declared_where_it_is_needed() -> None:
    root = root_element("r")
    add(root, "a", attributes={f"{XLINK}href": "u"})
    assert serialized(root, declared=False, indented=True).decode() == (
        '<r>\n  <a xmlns:xlink="http://www.w3.org/1999/xlink" xlink:href="u"/>\n</r>\n'
    )


def test_empty_texts_and_lists_are_omitted() -> None:
    root = root_element("r")
    add_filled(root, ("a", ""), ("b", "1"))
    add_list(root, "c", "d", ())
    add_list(root, "e", "f", ("1", ""))
    assert serialized(root, declared=False) == b"<r><b>1</b><e><f>1</f><f/></e></r>"


def test_copy_of_a_record_belongs_to_the_document() -> None:
    root = root_element("{urn:a}r", namespaces={"a": "urn:a"})
    source = record("{urn:a}b", "{urn:a}c", "{urn:a}d")
    for pair in pairwise("123"):
        add_copy(root, source, *pair)
    assert serialized(root, declared=False).decode() == (
        '<a:r xmlns:a="urn:a"><a:b><a:c>1</a:c><a:d>2</a:d></a:b>'
        "<a:b><a:c>2</a:c><a:d>3</a:d></a:b></a:r>"
    )


@pytest.mark.parametrize("value", ["a&<>\"'", "é\u2028😀", "]]>", " \t\n"])
def test_texts_read_back_as_they_were(value: str) -> None:
    root = root_element("r", {"a": value})
    add(root, "b", value, {"a": value})
    add_copy(root, record("c", "d"), value)
    found = etree.fromstring(serialized(root))
    assert found.findtext("b") == found.findtext("c/d") == value
    for element in (found, found[0]):
        assert element.get("a") == value


@pytest.mark.parametrize("value", ["\0", "\x1f", "\x0b", "\ud800", "\ufffe", "\uffff"])
def test_illegal_character_is_replaced(value: str) -> None:
    root = root_element("r", {"a": value})
    add(root, "b", value, {"a": f"<{value}>"})
    add_copy(root, record("c", "d"), f"x{value}")
    found = etree.fromstring(serialized(root))
    assert [element.get("a") for element in (found, found[0])] == ["\ufffd", "<\ufffd>"]
    assert [found.findtext("b"), found.findtext("c/d")] == ["\ufffd", "x\ufffd"]
    assert len(found) == 2


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "iso-8859-1", "windows-1252"])
def test_declared_encodings_are_read(encoding: str) -> None:
    text = f'<?xml version="1.0" encoding="{encoding}"?><a b="é">ü</a>'
    root = read(text.encode(encoding))
    assert (root.get("b"), root.text) == ("é", "ü")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"   ",
        b"text",
        b"<a>",
        b"<a></b>",
        b"<a/><a/>",
        b"<a b=1/>",
        b"<a:b/>",
        b"\xff\xfe<",
        b'<?xml version="1.0" encoding="bogus"?><a/>',
        b'<?xml version="1.0" encoding="UTF-16"?><a/>',
        b"<a>&x;</a>",
        b"<a>\xff</a>",
        b"<a>&#0;</a>",
        b"<!DOCTYPE a><a/>",
        b'<!DOCTYPE a SYSTEM "http://127.0.0.1:1/a.dtd"><a/>',
        b'<!DOCTYPE a [<!ENTITY x "y">]><a>&x;</a>',
        '<!DOCTYPE a [<!ENTITY x "y">]><a>&x;</a>'.encode("utf-16"),
        b'<?xml version="1.0" encoding="utf-7"?>+ADwAIQ-DOCTYPE a><a/>',
        b"<a>" * 10_000 + b"</a>" * 10_000,
        b"<a>" + b"x" * 11_000_000 + b"</a>",
    ],
    ids=lambda body: body[:30].decode("latin-1"),
)
def test_invalid_or_dangerous_document_is_refused(body: bytes) -> None:
    with pytest.raises(NotXMLError):
        read(body)


def test_tags_have_a_bound() -> None:
    body = b"<a><b></b></a>"
    assert len(read(body, most_tags=4)) == 1
    with pytest.raises(NotXMLError):
        read(body, most_tags=3)


def test_request_may_not_have_too_many_elements() -> None:
    assert len(read_request(b"<a>" + b"<b/>" * 999 + b"</a>")) == 999
    assert local_name(read_request(b"<a>" * 32 + b"</a>" * 32)) == "a"
    for body in (b"<a>" + b"<b/>" * 1000 + b"</a>", b"<a>" * 33 + b"</a>" * 33):
        with pytest.raises(NotXMLError):
            read_request(body)


def test_texts_at_a_path_are_found_in_any_namespace() -> None:
    root = read_request(
        b'<a:r xmlns:a="urn:a"><?p?><b> one <!-- -->more <c> 2 </c> two</b>'
        b'<b xmlns="urn:b"><![CDATA[<4>]]><a:c/></b><c>no</c></a:r>'
    )
    assert local_name(root) == "r"
    assert texts(root, "b") == ["one more  two", "<4>"]
    assert texts(root, "b", "c") == ["2", ""]
    assert texts(root, "d") == []
