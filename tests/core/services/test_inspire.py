"""Names and membership of INSPIRE layers (layer.md section 10)."""

from __future__ import annotations

import pytest

from mastaba.model.layer import Metadata
from mastaba.services.inspire import extended_capabilities, is_harmonised_name


@pytest.mark.parametrize(
    "name",
    [
        "AD.Address",
        "AU.AdministrativeUnit",
        "OI.OrthoimageCoverage",
        "EL.ElevationGridCoverage",
        "HY.PhysicalWaters.Waterbodies",
        "TN.RoadTransportNetwork.RoadLink",
        "HY.Reporting.WFDRiver",
        "AU.NUTSRegion",
        "NZ.RiskZone",
    ],
)
def test_names_of_the_regulation(name: str) -> None:
    assert is_harmonised_name(name)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "OI",
        "OI.",
        "OI.orthoimage",
        "XX.Address",
        "oi.Orthoimage",
        "OI..A",
        "OI.A.",
        "AOI.A",
        "ORTHO",
    ],
)
def test_other_names(name: str) -> None:
    assert not is_harmonised_name(name)


@pytest.mark.parametrize(
    ("metadata", "media_type"),
    [
        (Metadata("text/xml", "http://m.example/?a&b", "ISO19115:2003"), "text/xml"),
        (Metadata("x", "http://m.example/?a&b", "application/xml"), "application/xml"),
    ],
)
def test_record_is_named_with_its_media_type(metadata: Metadata, media_type: str) -> None:
    text = extended_capabilities(metadata)
    assert "<inspire_common:URL>http://m.example/?a&amp;b</inspire_common:URL>" in text
    assert f"<inspire_common:MediaType>{media_type}</inspire_common:MediaType>" in text
    assert "MetadataUrl" not in extended_capabilities(None)
