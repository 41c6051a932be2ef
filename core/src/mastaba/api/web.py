"""Requests, responses, and what services need to write them."""

from mastaba.web.accept import Accept
from mastaba.web.body import Body, SpooledBody, spooled
from mastaba.web.cors import CrossOrigin
from mastaba.web.markup import anchor, coordinate, decimal
from mastaba.web.request import OPERATION, Request, decode, printable
from mastaba.web.response import (
    STATUS_LINES,
    Document,
    Response,
    accepts_coding,
    content_disposition,
    message,
    preferred_media_type,
)

__all__ = [
    "OPERATION",
    "STATUS_LINES",
    "Accept",
    "Body",
    "CrossOrigin",
    "Document",
    "Request",
    "Response",
    "SpooledBody",
    "accepts_coding",
    "anchor",
    "content_disposition",
    "coordinate",
    "decimal",
    "decode",
    "message",
    "preferred_media_type",
    "printable",
    "spooled",
]
