"""The XML answers of IGN's altimetry service (elevation.md 3.1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from mastaba_ows.xml import Element, add, root_element, serialized

XML: Final = "application/xml"


def error_xml(fields: Mapping[str, str]) -> bytes:
    """Return an error report."""
    root = root_element("error")
    _add_all(root, fields)
    return serialized(root)


def elevations_xml(content: Mapping[str, Any]) -> bytes:
    """Return the JSON answer to points or a line as XML."""
    root = root_element("elevations")
    for entry in content["elevations"]:
        if not isinstance(entry, dict):
            add(root, "z", str(entry))
            continue
        elevation = add(root, "elevation")
        _add_all(elevation, {name: entry[name] for name in entry if name != "measures"})
        if "measures" in entry:
            measures = add(elevation, "measures")
            for measure in entry["measures"]:
                _add_all(add(measures, "measure"), measure)
    if "height_differences" in content:
        _add_all(add(root, "height_differences"), content["height_differences"])
    return serialized(root)


def _add_all(parent: Element, fields: Mapping[str, Any]) -> None:
    for name, value in fields.items():
        add(parent, name, str(value))
