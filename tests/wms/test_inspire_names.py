"""Names of INSPIRE layers (layer.md section 10)."""

from __future__ import annotations

import pytest

from mastaba_wms.inspire_names import is_harmonised_name


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
