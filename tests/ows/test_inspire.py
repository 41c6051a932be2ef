"""Extended capabilities of INSPIRE."""

from __future__ import annotations

import pytest

from mastaba.model.layer import Metadata
from mastaba_ows.inspire import add_extended_capabilities, is_wanted
from mastaba_ows.xml import root_element


@pytest.mark.parametrize(
    ("metadata", "media_type"),
    [
        (Metadata("text/xml", "http://m.example/?a&b", "ISO19115:2003"), "text/xml"),
        (Metadata("x", "http://m.example/?a&b", "application/xml"), "application/xml"),
    ],
)
def test_record_is_named_with_its_media_type(metadata: Metadata, media_type: str) -> None:
    root = root_element("r")
    add_extended_capabilities(root, "urn:v", metadata)
    record = root.find(".//{*}MetadataUrl")
    assert record is not None
    assert [child.text for child in record] == ["http://m.example/?a&b", media_type]


def test_record_is_optional() -> None:
    root = root_element("r")
    add_extended_capabilities(root, "urn:v", None)
    assert root.find(".//{*}MetadataUrl") is None
    assert [element.text for element in root.iter("{*}Language")] == ["fre", "fre"]


@pytest.mark.parametrize(
    ("value", "wanted"), [("TRUE", True), ("1", True), ("false", False), ("0", False)]
)
def test_parameter_overrides_the_settings(value: str, wanted: bool) -> None:
    assert is_wanted({"inspire": value}, not wanted) is wanted


@pytest.mark.parametrize("parameters", [{}, {"inspire": ""}, {"inspire": "maybe"}])
def test_absent_or_invalid_parameter_means_the_settings(parameters: dict[str, str]) -> None:
    assert is_wanted(parameters, True)
    assert not is_wanted(parameters, False)
