"""Reading posted XML."""

from __future__ import annotations

import pytest

from mastaba.web.xml import NotXMLError, read_elements


def test_elements_come_in_order_with_path_namespace_attributes_and_text() -> None:
    elements = read_elements(
        b'<a:r xmlns:a="urn:a" a:x="1" y=" 2 "> one <b>two<c/> more </b> three'
        b'<b xmlns="urn:b"><![CDATA[<4>]]></b></a:r>'
    )
    assert [(e.path, e.name, e.namespace, e.attributes, e.text) for e in elements] == [
        ((), "r", "urn:a", {"x": "1", "y": " 2 "}, "one  three"),
        (("b",), "b", "", {}, "two more"),
        (("b", "c"), "c", "", {}, ""),
        (("b",), "b", "urn:b", {}, "<4>"),
    ]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "iso-8859-1", "windows-1252"])
def test_declared_encodings_are_read(encoding: str) -> None:
    text = f'<?xml version="1.0" encoding="{encoding}"?><a b="é">ü</a>'
    (element,) = read_elements(text.encode(encoding))
    assert (element.attributes, element.text) == ({"b": "é"}, "ü")


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
        b'<?xml version="1.0" encoding="utf-7"?><a/>',
        b'<?xml version="1.0" encoding="big5"?><a/>',
        b"<a>&x;</a>",
        b"<!DOCTYPE a><a/>",
        b'<!DOCTYPE a SYSTEM "http://127.0.0.1:1/a.dtd"><a/>',
        b'<!DOCTYPE a [<!ENTITY x "y">]><a>&x;</a>',
        b"<a>" + b"<b/>" * 1000 + b"</a>",
        b"<a>" * 33 + b"</a>" * 33,
    ],
    ids=lambda body: body[:30].decode("latin-1"),
)
def test_what_must_not_be_read_is_refused(body: bytes) -> None:
    with pytest.raises(NotXMLError):
        read_elements(body)


def test_limits_are_those_of_large_requests() -> None:
    assert len(read_elements(b"<a>" + b"<b/>" * 999 + b"</a>")) == 1000
    assert len(read_elements(b"<a>" * 32 + b"</a>" * 32)) == 32
