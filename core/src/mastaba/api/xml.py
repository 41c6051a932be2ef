"""XML documents: writing with lxml, safe reading, and requests sent by POST."""

from mastaba.web.contact import add_contact
from mastaba.web.post import FORM, elements, form_parameters, read_request, text_of, texts
from mastaba.web.xml import (
    XLINK,
    XSI,
    Element,
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

__all__ = [
    "FORM",
    "XLINK",
    "XSI",
    "Element",
    "NotXMLError",
    "add",
    "add_contact",
    "add_copy",
    "add_filled",
    "add_list",
    "elements",
    "form_parameters",
    "local_name",
    "read",
    "read_request",
    "record",
    "root_element",
    "serialized",
    "text_of",
    "texts",
]
