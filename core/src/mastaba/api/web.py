"""Requests, responses, and what services need to write them."""

from mastaba.cancellation import check as check_wanted
from mastaba.web.request import OPERATION, Request, parse_query
from mastaba_server.body import Body, SpooledBody, spooled
from mastaba_server.messages import STATUS_LINES
from mastaba_server.web.cors import CrossOrigin
from mastaba_server.web.markup import anchor, coordinate, decimal, escaped, legal
from mastaba_server.web.response import (
    Document,
    Response,
    accepts_coding,
    content_disposition,
    message,
    preferred_media_type,
)
from mastaba_server.web.text import decode, printable

__all__ = [
    "OPERATION",
    "STATUS_LINES",
    "Body",
    "CrossOrigin",
    "Document",
    "Request",
    "Response",
    "SpooledBody",
    "accepts_coding",
    "anchor",
    "check_wanted",
    "content_disposition",
    "coordinate",
    "decimal",
    "decode",
    "escaped",
    "legal",
    "message",
    "parse_query",
    "preferred_media_type",
    "printable",
    "spooled",
]
