"""XML documents: writing with lxml, and safe reading."""

from mastaba.api._deprecated import former_names
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
    "XLINK",
    "XSI",
    "Element",
    "NotXMLError",
    "add",
    "add_copy",
    "add_filled",
    "add_list",
    "local_name",
    "read",
    "record",
    "root_element",
    "serialized",
]

_POST = ("FORM", "elements", "form_parameters", "read_request", "text_of", "texts")
__getattr__ = former_names(
    __name__,
    {
        "add_contact": ("mastaba_ows.contact.add_contact", "2.0"),
        **{name: (f"mastaba_ows.post.{name}", "2.0") for name in _POST},
    },
)
