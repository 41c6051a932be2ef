"""Source numbers of pyramids whose slabs are replaced, kept, copied or removed."""

from __future__ import annotations

import json
import shutil
import struct
from collections.abc import Callable
from contextlib import closing, suppress
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pyproj
import pytest
from tests.build.conftest import built, plan_in
from tests.build.ground import read_payloads
from tests.build.mosaic import LEVEL, Oracle, Sheet, make_sheets, touch
from tests.build.test_history import KilledError
from tests.build.test_join import headed
from tests.build.test_provenance import OPTIONS, Mosaic, compare, points

from mastaba_build.config.access import Access
from mastaba_build.config.configuration import Configuration
from mastaba_build.errors import BuildError, PlanError, VerificationError
from mastaba_build.output.destination import Destination
from mastaba_build.output.storage import OutputStore
from mastaba_build.output.versions import DOCUMENTS, FURTHER
from mastaba_build.pyramid.copying import copy_pyramid
from mastaba_build.pyramid.history import log
from mastaba_build.pyramid.provenance_adding import add_provenance
from mastaba_build.pyramid.provenance_checking import check_provenance
from mastaba_build.pyramid.provenance_facts import set_facts
from mastaba_build.pyramid.pruning import prune
from mastaba_build.pyramid.verification import verify
from mastaba_build.sources.footprints import read_footprints
from mastaba_build.work.build import build
from mastaba_build.work.reports import Reports

SMALL = {**OPTIONS, "format": "zip"}


@pytest.fixture
def sheets(tmp_path: Path) -> list[Sheet]:
    """Sheets in one tile."""
    sheets = make_sheets(tmp_path, 5, 1, 11)
    for sheet in sheets:
        sheet.write(has_alpha=False)
        touch(sheet.path, 10**9)
    return sheets


def entries(sheets: list[Sheet]) -> list[dict[str, Any]]:
    return [sheet.entry() for sheet in sheets]


def again(folder: Path, sheets: list[Sheet], how: str, **options: Any) -> None:
    plan = plan_in(folder, *entries(sheets), **{**SMALL, **options})
    errors = StringIO()
    assert build(plan, Reports(StringIO(), errors), update=how), errors.getvalue()


def replaced(sheet: Sheet, time: int) -> None:
    """Write a sheet with its holes at other places."""
    sheet.alpha = np.roll(sheet.alpha, 17, 0)
    sheet.write(has_alpha=False)
    touch(sheet.path, 10**9 + time)


def checked(folder: Path, sheets: list[Sheet], name: str = "map") -> None:
    """Compare a pyramid with the oracle and with its own records."""
    mosaic = Mosaic(folder, name)
    compare(mosaic, Oracle(sheets, has_alpha=False), points(mosaic, 1, 60, 2))
    if name == "map":
        verify(Destination.parse(str(folder)), name, full=True)


def corrected(folder: Path, date: str) -> None:
    """Publish a version with another fact."""
    table = folder / "facts.csv"
    rows = json.loads((folder / "out/map.sources.json").read_text())["sources"]
    table.write_text(f"number,date\n{rows[0]['number']},{date}\n", "utf-8")
    with closing(OutputStore.of_directory(folder / "out")) as store:
        set_facts(store, "map", table)


def test_injected_slabs_have_their_numbers(tmp_path: Path, sheets: list[Sheet]) -> None:
    built(plan_in(tmp_path, *entries(sheets), **SMALL))
    out = tmp_path / "out"
    replaced(sheets[2], 1)
    again(tmp_path, sheets, "inject")
    checked(out, sheets)
    again(tmp_path, sheets, "inject", provenance=False)
    assert "provenance" not in json.loads((out / "map.json").read_text())
    assert not [*out.rglob("*sources*"), *out.rglob("SOURCE/**/*.tif")]
    copy_pyramid(Destination.parse(str(out)), "map", Destination.parse(str(tmp_path / "copy")))
    assert read_payloads(tmp_path / "copy/map.json") == read_payloads(out / "map.json")


@pytest.mark.parametrize("inject", [False, True])
def test_head_and_copy_keep_the_numbers(
    tmp_path: Path, sheets: list[Sheet], *, inject: bool
) -> None:
    built(plan_in(tmp_path, *entries(sheets), **SMALL))
    out = tmp_path / "out"
    headed(out, "map", str(LEVEL), str(LEVEL - 2), inject=inject)
    assert len(json.loads((out / "map.json").read_text())["levels"]) == 3
    checked(out, sheets)
    copy_pyramid(Destination.parse(str(out)), "map", Destination.parse(str(tmp_path / "copy")))
    checked(tmp_path / "copy", sheets)


def test_the_corrected_facts_of_an_earlier_plan_come_back(
    tmp_path: Path, sheets: list[Sheet]
) -> None:
    built(plan_in(tmp_path, *entries(sheets), **SMALL))
    corrected(tmp_path, "1998")
    again(tmp_path, sheets[:3], "new")
    again(tmp_path, sheets, "new")
    assert json.loads((tmp_path / "out/map.json").read_text())["provenance"] == "map_2.sources.json"


def looked_at(out: Path, footprints: dict[str, str] | None = None, count: int = 400) -> int:
    """Compare the numbers with the sources or polygons."""
    configuration = Configuration("-", Destination.parse(str(out)), (), access=Access())
    with closing(configuration.output.open()) as store:
        return check_provenance(configuration, store, "map", footprints, count)


@pytest.mark.parametrize("has_alpha", [False, True])
def test_wrong_numbers_are_found_in_the_sources(
    tmp_path: Path, sheets: list[Sheet], *, has_alpha: bool
) -> None:
    for sheet in sheets:
        sheet.write(has_alpha=has_alpha)
    format = {"format": "png", "channels": 2} if has_alpha else {"format": "zip"}
    built(plan_in(tmp_path, *entries(sheets), **OPTIONS, **format))
    out = tmp_path / "out"
    assert looked_at(out, count=1000) == 1000
    path = out / "map.sources.slabs"
    text = path.read_text()
    # What the uppermost sheet gives is said to come from another one.
    found = ""
    for other in sheets[:-1]:
        document = json.loads(text)
        keys = document["keys"]
        identity = next((key[1] for key in keys.values() if key[0] == str(other.path)), None)
        if identity is None:
            continue
        for number, key in keys.items():
            if key[0] == str(sheets[-1].path):
                keys[number] = [str(other.path), identity, ""]
        path.write_text(json.dumps(document))
        with pytest.raises(VerificationError) as caught:
            looked_at(out)
        found += str(caught.value)
    assert "has no data there" in found
    assert f"{sheets[-1].path} has data there and is above it" in found
    path.write_text(text)
    touch(sheets[-1].path, 10**9 + 5)
    with pytest.raises(BuildError, match="has changed since the build"):
        looked_at(out)


def test_missing_numbers_are_found(tmp_path: Path, sheets: list[Sheet]) -> None:
    built(plan_in(tmp_path, *entries(sheets), **{**SMALL, "provenance": False}))
    out, seams = tmp_path / "out", next(one.footprints for one in sheets if one.footprints)
    configuration = Configuration("-", Destination.parse(str(out)), (), access=Access())
    given = {"path": str(seams), "date": "d"}
    with closing(configuration.output.open()) as store:
        add_provenance(configuration, store, str(out / "map.json"), given)
    with pytest.raises(PlanError, match="--footprints"):
        looked_at(out)
    assert looked_at(out, given) == 400
    path = out / "map.sources.slabs"
    document = json.loads(path.read_text())
    document["slabs"] = []
    path.write_text(json.dumps(document))
    with pytest.raises(VerificationError, match="but has no number"):
        looked_at(out, given)


@pytest.mark.thorough
def test_versions_that_share_slabs_are_pruned_apart(
    tmp_path: Path, sheets: list[Sheet], monkeypatch: pytest.MonkeyPatch
) -> None:
    built(plan_in(tmp_path, *entries(sheets), **SMALL))
    corrected(tmp_path, "1998")
    replaced(sheets[2], 1)
    again(tmp_path, sheets, "new")
    corrected(tmp_path, "1999")
    corrected(tmp_path, "2000")
    out = tmp_path / "out"
    payloads = {n: read_payloads(out / f"map_{n}.json") for n in range(1, 6)}
    tables = {n: (out / f"map_{n}.sources.json").read_bytes() for n in range(1, 6)}
    names = {n: Mosaic(out, f"map_{n}").tiles.keys() for n in range(1, 6)}
    shutil.copytree(out, tmp_path / "before", symlinks=True)
    calls = {"left": 0}

    def dying(call: Callable[..., Any]) -> Callable[..., Any]:
        def run(self: OutputStore, key: str, *args: Any, **more: Any) -> Any:
            if not key.endswith(".lock"):
                calls["left"] -= 1
                if calls["left"] < 0:
                    raise KilledError
            return call(self, key, *args, **more)

        return run

    for method in ("write", "delete"):
        monkeypatch.setattr(OutputStore, method, dying(getattr(OutputStore, method)))
    for keep in (1, 2, 3, 4):
        for killed_after in range(0, 40, 3):
            shutil.rmtree(out)
            shutil.copytree(tmp_path / "before", out, symlinks=True)
            with closing(OutputStore.of_directory(out)) as store:
                calls["left"] = killed_after
                with suppress(KilledError):
                    prune(store, "map", keep, linked_days=0)
                calls["left"] = 10**9
                prune(store, "map", keep, linked_days=0)
                kept = [one.number for one in log(store, "map")]
            assert kept == list(range(6 - keep, 6))
            for number in kept:
                stem = f"map_{number}"
                assert read_payloads(out / f"{stem}.json") == payloads[number]
                assert (out / f"{stem}.sources.json").read_bytes() == tables[number]
                assert Mosaic(out, stem).tiles.keys() == names[number]
            for number in set(payloads) - set(kept):
                left = [e for e in (*DOCUMENTS, *FURTHER) if (out / f"map_{number}{e}").exists()]
                assert not left, (keep, killed_after, number)
            verify(Destination.parse(str(out)), "map", full=True)


@pytest.mark.parametrize(
    ("name", "driver"),
    [("a.gpkg", "GPKG"), ("a.fgb", "FlatGeobuf"), ("a.shp", "ESRI Shapefile")],
)
def test_polygons_are_those_of_the_same_geojson(tmp_path: Path, name: str, driver: str) -> None:
    raw = pytest.importorskip("pyogrio.raw")
    outer = [(2.0, 48.0), (2.0, 49.0), (3.0, 49.0), (3.0, 48.0), (2.0, 48.0)]
    inner = [(2.2, 48.2), (2.4, 48.2), (2.4, 48.4), (2.2, 48.2)]
    other = [(4.0, 48.0), (4.0, 49.0), (5.0, 49.0), (4.0, 48.0)]
    shapes: list[list[list[list[tuple[float, float]]]]] = [[[outer, inner]], [[outer], [other]]]
    features = [
        {
            "type": "Feature",
            "properties": {"flown": f"202{number}-05-03"},
            "geometry": {"type": "MultiPolygon", "coordinates": polygons},
        }
        for number, polygons in enumerate(shapes)
    ]
    text = json.dumps({"type": "FeatureCollection", "features": features})
    (tmp_path / "a.geojson").write_text(text)
    dates = np.array(["2020-05-03", "2021-05-03"], object)
    raw.write(
        tmp_path / name,
        geometry=np.array([_multi_polygon(one) for one in shapes], object),
        field_data=[dates],
        fields=["flown"],
        geometry_type="MultiPolygon",
        crs="EPSG:4326",
        driver=driver,
        **({"SPATIAL_INDEX": "NO"} if driver == "FlatGeobuf" else {}),
    )
    crs = pyproj.CRS.from_user_input("EPSG:3857")
    found, wanted = (
        read_footprints({"path": str(tmp_path / one), "date": "flown"}, crs, 10.0)
        for one in (name, "a.geojson")
    )
    assert [one.facts["date"] for one in found] == ["2020-05-03", "2021-05-03"]
    for one, same in zip(found, wanted, strict=True):
        assert len(one.geometry["coordinates"]) == len(same.geometry["coordinates"])
        for rings, others in zip(
            one.geometry["coordinates"], same.geometry["coordinates"], strict=True
        ):
            for ring, expected in zip(rings, others, strict=True):
                # A format may turn rings around.
                np.testing.assert_allclose(
                    sorted(map(tuple, ring)), sorted(map(tuple, expected)), rtol=1e-9, atol=1e-3
                )
    (tmp_path / f"b{name}").write_bytes(b"x" * 200)
    with pytest.raises(PlanError, match="its content is not that"):
        read_footprints({"path": str(tmp_path / f"b{name}")}, crs, 10.0)


def _multi_polygon(polygons: list[list[list[tuple[float, float]]]]) -> bytes:
    """Return a geometry in WKB."""
    parts = [struct.pack("<BII", 1, 6, len(polygons))]
    for rings in polygons:
        parts.append(struct.pack("<BII", 1, 3, len(rings)))
        for ring in rings:
            parts += [struct.pack("<I", len(ring)), np.array(ring, "<f8").tobytes()]
    return b"".join(parts)
