"""Files that cannot be published: each is a fault of its layer, with a remedy."""

from __future__ import annotations

import io
import json
import sqlite3
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import tifffile
from tests.container_cog.files import PLACE, by_tifffile, changed, ground
from tests.container_sqlite.ground import picture, web_tiles, write_geopackage, write_mbtiles

from mastaba.config.load import load_catalogue
from mastaba.config.server import load_server
from mastaba.plugins.manager import Plugins
from mastaba_conformance.tiny_installation import tiny_installation
from mastaba_documents.faults import Fault, Faults
from mastaba_storage.environment import Environment

Entry = dict[str, Any]
HEADS: Mapping[str, tuple[bytes, str]] = {
    "pmtiles": (b"PMTiles\x03", "a PMTiles archive"),
    "sqlite": (b"SQLite format 3\0", "an SQLite database"),
    "tif": (b"II*\0\x08\0\0\0", "a GeoTIFF"),
    "bigtiff": (b"MM\0+\0\x08\0\0", "a GeoTIFF (BigTIFF)"),
    "zip": (b"PK\x03\x04", "a ZIP archive"),
    "html": (b"<html>", "an XML or HTML document"),
    "none": (b"\x01\x02\x03\x04", "an unknown file"),
}
OWN = {
    "pmtiles": ("pmtiles",),
    "mbtiles": ("sqlite",),
    "gpkg": ("sqlite",),
    "tif": ("tif", "bigtiff"),
    "mosaic": ("html", "sqlite"),
}


def fault_of(folder: Path, *entries: Entry, plugins: Plugins | None = None) -> Fault:
    """Return the fault of a layer with these entries, beside layers that are served."""
    server = tiny_installation(folder / "site")
    document = {"title": "Bad", "abstract": "", "pyramids": [*entries]}
    layer = folder / "site/layers/BAD.json"
    layer.write_text(json.dumps(document))
    with (folder / "site/layers.txt").open("a") as file:
        file.write(f"{layer}\n")
    faults, plugins = Faults(), plugins or Plugins()
    config = load_server(str(server), plugins, faults)
    catalogue = load_catalogue(config, plugins, Environment(), faults)
    catalogue.storages.close()
    assert "RGB_PNG" in catalogue.layers
    assert "BAD" not in catalogue.layers
    (fault,) = faults.errors
    assert fault.remedy
    return fault


@pytest.mark.parametrize(
    ("container", "head"),
    [(name, head) for name, own in OWN.items() for head in HEADS if head not in own],
)
def test_suffix_against_signature(container: str, head: str, tmp_path: Path) -> None:
    data, kind = HEADS[head]
    path = tmp_path / (f"a.{container}" if container != "mosaic" else "a.json")
    path.write_bytes(data + bytes(70_000))
    entry: Entry = {"path": str(path)}
    if container == "mosaic":
        entry["container"] = "mosaic"
    fault = fault_of(tmp_path, entry)
    assert f"is {kind}" in fault.reason
    assert str(path) in fault.reason


@pytest.mark.parametrize(
    ("container", "kind"), [("mbtiles", "a GeoPackage"), ("gpkg", "not a GeoPackage")]
)
def test_two_kinds_of_databases(container: str, kind: str, tmp_path: Path) -> None:
    path = tmp_path / f"a.{container}"
    if container == "gpkg":
        write_mbtiles(path, web_tiles())
    else:
        write_geopackage(path.with_suffix(".gpkg"), {(1, 0, 0): picture(1)}).rename(path)
    assert kind in fault_of(tmp_path, {"path": str(path)}).reason


def in_strips(path: Path) -> None:
    tags = [(*tag, True) for tag in PLACE]
    tifffile.imwrite(path, ground("uint8")[:, :, 0], extratags=tags, metadata=None)


def rotated(path: Path) -> None:
    tilted = (10.0, 1.0, 0.0, 5e5, 1.0, -10.0, 0.0, 4.6e6, *(0.0,) * 7, 1.0)
    tags = [(34264, "d", 16, tilted), PLACE[2]]
    stream = io.BytesIO()
    tifffile.imwrite(
        stream,
        ground("uint8")[:, :, 0],
        tile=(32, 32),
        extratags=[(*tag, True) for tag in tags],
        metadata=None,
    )
    path.write_bytes(stream.getvalue())


def of_a_crs_without_code(path: Path) -> None:
    keys = (1, 1, 0, 2, 1024, 0, 1, 1, 3072, 0, 1, 32767)
    path.write_bytes(changed(by_tifffile(ground("uint8")), 34735, *keys))


def of_16_bits(path: Path) -> None:
    path.write_bytes(by_tifffile(ground("uint16", 3), photometric="rgb", planarconfig="contig"))


def without_index(path: Path) -> None:
    write_mbtiles(path, web_tiles())
    with sqlite3.connect(path) as database:
        database.execute("DROP INDEX tile_index")


def with_two_tables(path: Path) -> None:
    write_geopackage(path, {(1, 0, 0): picture(1)})
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE other AS SELECT * FROM map")
        columns = [row[1] for row in database.execute("PRAGMA table_info(gpkg_contents)")]
        others = ", ".join("'other'" if name in NAMES else name for name in columns)
        database.execute(f"INSERT INTO gpkg_contents SELECT {others} FROM gpkg_contents")


NAMES = ("table_name", "identifier")
CASES: dict[str, tuple[str, Callable[[Path], None], str, str]] = {
    "strips": ("a.tif", in_strips, "in strips", "gdal_translate -of COG"),
    "rotated": ("a.tif", rotated, "rotated", "gdalwarp"),
    "user-defined CRS": ("a.tif", of_a_crs_without_code, "no code", 'option "crs"'),
    "16 bits": ("a.tif", of_16_bits, "3 bands of uint16", "rescale"),
    "no index": ("a.mbtiles", without_index, "no index", "CREATE UNIQUE INDEX"),
    "two tables": ("a.gpkg", with_two_tables, "map, other", "option table"),
}


@pytest.mark.parametrize("case", CASES)
def test_file_that_cannot_be_published(case: str, tmp_path: Path) -> None:
    name, write, reason, remedy = CASES[case]
    write(tmp_path / name)
    fault = fault_of(tmp_path, {"path": str(tmp_path / name)})
    assert reason in fault.reason
    assert remedy in fault.remedy


@pytest.mark.parametrize("values", [ground("float32"), ground("uint8")], ids=["float", "grey"])
def test_entries_of_mixed_types(values: Any, tmp_path: Path) -> None:
    (tmp_path / "a.tif").write_bytes(by_tifffile(values))
    site = tmp_path / "site"
    fault = fault_of(
        tmp_path,
        {"path": f"{site}/pyramids/RGB_PNG.json", "bottom_level": "3", "top_level": "2"},
        {"path": str(tmp_path / "a.tif"), "options": {"crs": "EPSG:3857"}},
    )
    assert fault.path == "$.pyramids[1]"
    assert "differs from that of the first pyramid" in fault.reason


def test_files_that_fit_are_served_beside(tmp_path: Path) -> None:
    """The cases above are refused because of what they are, not because of how they are read."""
    write_mbtiles(tmp_path / "a.mbtiles", web_tiles())
    (tmp_path / "a.tif").write_bytes(by_tifffile(ground("uint8")))
    write_geopackage(tmp_path / "a.gpkg", {(1, 0, 0): picture(1)})
    server = tiny_installation(tmp_path / "site")
    with (tmp_path / "site/layers.txt").open("a") as file:
        for name in ("a.mbtiles", "a.tif", "a.gpkg"):
            layer = tmp_path / f"site/layers/{name[2:]}.json"
            entry = {"path": str(tmp_path / name)}
            layer.write_text(json.dumps({"title": name, "abstract": "", "pyramids": [entry]}))
            file.write(f"{layer}\n")
    faults, plugins = Faults(), Plugins()
    config = load_server(str(server), plugins, faults)
    catalogue = load_catalogue(config, plugins, Environment(), faults)
    catalogue.storages.close()
    assert faults.errors == ()
    assert {"mbtiles", "tif", "gpkg"} <= set(catalogue.layers)


PACKAGES = {
    "pmtiles": "mastaba-pmtiles",
    "mbtiles": "mastaba-sqlite-tiles",
    "geopackage": "mastaba-sqlite-tiles",
    "cog": "mastaba-cog",
    "mosaic": "mastaba-cog",
}


def test_each_container_has_a_package_to_install() -> None:
    assert set(Plugins().containers) == set(PACKAGES)


@pytest.mark.parametrize("name", PACKAGES)
def test_the_package_of_a_container_that_is_not_installed_is_told(
    name: str, tmp_path: Path
) -> None:
    plugins = Plugins()
    suffixes = plugins.containers.declared("suffixes")[name]
    provider = plugins.containers.provider(name)
    (info,) = [one for one in plugins.listing() if one.name == provider]
    assert info.distribution == PACKAGES[name]
    without = Plugins(blocked=[provider])
    fault = fault_of(tmp_path, {"path": "/x", "container": name}, plugins=without)
    assert (fault.path, fault.remedy) == (
        "$.pyramids[0].container",
        f"pip install {PACKAGES[name]}",
    )
    assert f"nothing installed opens {name} (installed: " in fault.reason
    for number, suffix in enumerate(suffixes):
        fault = fault_of(tmp_path / str(number), {"path": f"/x/A{suffix.upper()}"}, plugins=without)
        assert fault.path == "$.pyramids[0].path"
        assert fault.remedy == f"pip install {PACKAGES[name]}"
        assert f"nothing installed opens {suffix[1:]}" in fault.reason


def test_a_container_that_nobody_knows_has_no_package(tmp_path: Path) -> None:
    fault = fault_of(tmp_path, {"path": "/x", "container": "zip"})
    assert fault.reason.startswith("nothing installed opens zip (installed: ")
    assert "slab" in fault.reason
    assert fault.remedy == "correct the name of the container"


def test_slabs_may_be_named(tmp_path: Path) -> None:
    """The container of a descriptor of slabs wins over the suffix, as that of archives does."""
    server = tiny_installation(tmp_path / "site")
    document = json.loads((tmp_path / "site/layers/RGB_PNG.json").read_text())
    (entry,) = document["pyramids"]
    descriptor = Path(entry["path"]).with_suffix(".pmtiles")
    descriptor.write_bytes(Path(entry["path"]).read_bytes())
    for name, path in (("A", entry["path"]), ("B", str(descriptor))):
        document["pyramids"] = [{**entry, "path": path, "container": "slab"}]
        (tmp_path / f"site/layers/{name}.json").write_text(json.dumps(document))
        with (tmp_path / "site/layers.txt").open("a") as file:
            file.write(f"{tmp_path}/site/layers/{name}.json\n")
    faults, plugins = Faults(), Plugins()
    config = load_server(str(server), plugins, faults)
    catalogue = load_catalogue(config, plugins, Environment(), faults)
    catalogue.storages.close()
    assert faults.errors == ()
    found = [catalogue.layers[name].pyramid.levels.keys() for name in ("A", "B", "RGB_PNG")]
    assert found[0] == found[1] == found[2]
    options = {**entry, "container": "slab", "options": {}}
    fault = fault_of(tmp_path / "two", options)
    assert fault.reason == "only containers have options"


@pytest.mark.parametrize("is_used", [False, True], ids=["unused", "used"])
@pytest.mark.parametrize("is_valid", [True, False], ids=["valid", "invalid"])
def test_a_set_of_an_archive_never_hides_one_of_the_configuration(
    is_valid: bool, is_used: bool, tmp_path: Path
) -> None:
    (tmp_path / "a.tif").write_bytes(by_tifffile(ground("uint8")))
    server = tiny_installation(tmp_path / "site")
    sets = tmp_path / "site/tilematrixsets"
    ours = json.loads((sets / "PM.json").read_text())
    (sets / "OURS.json").write_text(json.dumps(ours) if is_valid else "{")
    document = {"title": "A", "abstract": "", "pyramids": []}
    document["pyramids"] = [
        {"path": str(tmp_path / "a.tif"), "options": {"tile_matrix_set_id": "OURS"}}
    ]
    (tmp_path / "site/layers/A.json").write_text(json.dumps(document))
    document = json.loads((tmp_path / "site/layers/RGB_PNG.json").read_text())
    document["extra_tilematrixsets"] = ["OURS"]
    (tmp_path / "site/layers/USED.json").write_text(json.dumps(document))
    for names in (["A"], ["A", "USED"], ["USED", "A"])[is_used : 1 + 2 * is_used]:
        (tmp_path / "site/layers.txt").write_text(
            "".join(f"{tmp_path}/site/layers/{name}.json\n" for name in [*names, "RGB_JPG"])
        )
        faults, plugins = Faults(), Plugins()
        config = load_server(str(server), plugins, faults)
        catalogue = load_catalogue(config, plugins, Environment(), faults)
        catalogue.storages.close()
        assert "A" not in catalogue.layers
        (fault,) = [one for one in faults.errors if one.file == str(tmp_path / "a.tif")]
        assert fault.reason == "another tile matrix set has the identifier 'OURS' too"
        assert fault.remedy == "name another one in options: tile_matrix_set_id"
        published = catalogue.tile_matrix_sets.get("OURS")
        assert published is None or published.crs.code == "EPSG:3857"
