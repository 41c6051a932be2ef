"""Schemas of feeds: RFC 4287 as RELAX NG, and JSON Feed 1.1 as JSON Schema."""

from __future__ import annotations

from typing import Any

from jsonschema import Draft202012Validator
from lxml import etree

_ATOM = """
<grammar xmlns="http://relaxng.org/ns/structure/1.0" ns="http://www.w3.org/2005/Atom"
    datatypeLibrary="http://www.w3.org/2001/XMLSchema-datatypes">
  <start>
    <element name="feed">
      <ref name="common"/>
      <interleave>
        <ref name="meta"/>
        <optional><element name="subtitle"><ref name="text"/></element></optional>
        <optional><element name="generator"><ref name="common"/>
          <optional><attribute name="uri"><data type="anyURI"/></attribute></optional>
          <optional><attribute name="version"/></optional><text/></element></optional>
        <optional><element name="icon"><ref name="uri"/></element></optional>
        <optional><element name="logo"><ref name="uri"/></element></optional>
      </interleave>
      <zeroOrMore><ref name="entry"/></zeroOrMore>
    </element>
  </start>
  <define name="entry">
    <element name="entry">
      <ref name="common"/>
      <interleave>
        <ref name="meta"/>
        <optional><element name="published"><ref name="date"/></element></optional>
        <optional><element name="summary"><ref name="text"/></element></optional>
        <optional><element name="content"><ref name="text"/></element></optional>
      </interleave>
    </element>
  </define>
  <define name="meta">
    <interleave>
      <element name="id"><ref name="uri"/></element>
      <element name="title"><ref name="text"/></element>
      <element name="updated"><ref name="date"/></element>
      <zeroOrMore><element name="author"><ref name="person"/></element></zeroOrMore>
      <zeroOrMore><element name="contributor"><ref name="person"/></element></zeroOrMore>
      <zeroOrMore><ref name="category"/></zeroOrMore>
      <zeroOrMore><ref name="link"/></zeroOrMore>
      <optional><element name="rights"><ref name="text"/></element></optional>
      <zeroOrMore><ref name="foreign"/></zeroOrMore>
    </interleave>
  </define>
  <define name="person">
    <ref name="common"/>
    <interleave>
      <element name="name"><text/></element>
      <optional><element name="uri"><ref name="uri"/></element></optional>
      <optional><element name="email">
        <data type="string"><param name="pattern">[^@]+@[^@]+</param></data>
      </element></optional>
    </interleave>
  </define>
  <define name="category">
    <element name="category"><ref name="common"/><attribute name="term"/>
      <optional><attribute name="scheme"><data type="anyURI"/></attribute></optional>
      <optional><attribute name="label"/></optional></element>
  </define>
  <define name="link">
    <element name="link"><ref name="common"/>
      <attribute name="href"><data type="anyURI"/></attribute>
      <optional><attribute name="rel">
        <data type="string"><param name="pattern">[^: ]+|[a-z]+:.+</param></data>
      </attribute></optional>
      <optional><attribute name="type">
        <data type="string"><param name="pattern">.+/.+</param></data>
      </attribute></optional>
      <optional><attribute name="hreflang"><data type="language"/></attribute></optional>
      <optional><attribute name="title"/></optional>
      <optional><attribute name="length"/></optional></element>
  </define>
  <define name="text">
    <ref name="common"/>
    <optional><attribute name="type"><choice><value>text</value><value>html</value></choice>
    </attribute></optional>
    <text/>
  </define>
  <define name="date">
    <ref name="common"/>
    <data type="dateTime"><param name="pattern">.*(Z|[+\\-][0-9]{2}:[0-9]{2})</param></data>
  </define>
  <define name="uri"><ref name="common"/>
    <data type="anyURI"><param name="pattern">[a-z]+:.+</param></data></define>
  <define name="common">
    <optional><attribute name="xml:base"><data type="anyURI"/></attribute></optional>
    <optional><attribute name="xml:lang"/></optional>
  </define>
  <define name="foreign">
    <element><anyName><except><nsName/></except></anyName>
      <zeroOrMore><choice><attribute><anyName/></attribute><text/></choice></zeroOrMore></element>
  </define>
</grammar>
"""

_URL = {"type": "string", "format": "uri", "pattern": "^[a-z]+:"}
_DATE = {"type": "string", "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$"}
_AUTHORS = {
    "type": "array",
    "items": {
        "type": "object",
        "minProperties": 1,
        "properties": {"name": {"type": "string"}, "url": _URL, "avatar": _URL},
    },
}
_EXTENSION = {"^_[^.]": {"type": "object"}}
_ITEM = {
    "type": "object",
    "required": ["id"],
    "anyOf": [{"required": ["content_text"]}, {"required": ["content_html"]}],
    "properties": {
        "id": {"type": "string"},
        "url": _URL,
        "external_url": _URL,
        "title": {"type": "string"},
        "content_html": {"type": "string"},
        "content_text": {"type": "string"},
        "summary": {"type": "string"},
        "date_published": _DATE,
        "date_modified": _DATE,
        "authors": _AUTHORS,
        "tags": {"type": "array", "items": {"type": "string"}},
        "language": {"type": "string"},
    },
    "patternProperties": _EXTENSION,
    "additionalProperties": False,
}
_FEED = {
    "type": "object",
    "required": ["version", "title", "items"],
    "properties": {
        "version": {"const": "https://jsonfeed.org/version/1.1"},
        "title": {"type": "string"},
        "home_page_url": _URL,
        "feed_url": _URL,
        "description": {"type": "string"},
        "next_url": _URL,
        "language": {"type": "string"},
        "authors": _AUTHORS,
        "items": {"type": "array", "items": _ITEM},
    },
    "patternProperties": _EXTENSION,
    "additionalProperties": False,
}


def check_atom(data: bytes) -> None:
    """Validate an Atom feed; each entry or the feed has an author (RFC 4287 section 4.1.2)."""
    feed = etree.fromstring(data)
    etree.RelaxNG(etree.fromstring(_ATOM)).assertValid(feed)
    name = "{http://www.w3.org/2005/Atom}author"
    entries = feed.findall("{http://www.w3.org/2005/Atom}entry")
    assert feed.find(name) is not None or all(one.find(name) is not None for one in entries)


def check_json(document: Any) -> None:
    """Validate a JSON Feed."""
    Draft202012Validator(_FEED).validate(document)
