"""Requests, responses, and what services need to write them."""

from mastaba.services.statuses import STATUSES, status_of
from mastaba_server.body import Body, SizedBody, SpooledBody, spooled
from mastaba_server.cancellation import check as check_wanted
from mastaba_server.messages import STATUS_LINES
from mastaba_server.web.addressable import (
    LARGEST_PIECE,
    AddressableBody,
    Streams,
    addressable_response,
)
from mastaba_server.web.cors import CrossOrigin
from mastaba_server.web.markup import anchor, coordinate, decimal, escaped, legal
from mastaba_server.web.request import OPERATION, Request, parse_query
from mastaba_server.web.response import (
    Document,
    Response,
    accepts_coding,
    content_disposition,
    message,
    preferred_language,
    preferred_media_type,
)
from mastaba_server.web.statuses import PROBLEM, entry_of, phrase, problem
from mastaba_server.web.text import decode, printable

__all__ = [
    "LARGEST_PIECE",
    "OPERATION",
    "PROBLEM",
    "STATUSES",
    "STATUS_LINES",
    "AddressableBody",
    "Body",
    "CrossOrigin",
    "Document",
    "Request",
    "Response",
    "SizedBody",
    "SpooledBody",
    "Streams",
    "accepts_coding",
    "addressable_response",
    "anchor",
    "check_wanted",
    "content_disposition",
    "coordinate",
    "decimal",
    "decode",
    "entry_of",
    "escaped",
    "legal",
    "message",
    "parse_query",
    "phrase",
    "preferred_language",
    "preferred_media_type",
    "printable",
    "problem",
    "spooled",
    "status_of",
]
