"""What a source may open: nothing outside its folder, and no URL."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import StringIO
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np
import pytest
import rasterio
import rasterio.shutil
import rasterio.vrt
from tests.build.conftest import Build, plan_in
from tests.build.ground import grid, read_tiles, write_raster
from tests.build.test_pixels import aligned, cell

from mastaba_build.config.access import Access
from mastaba_build.config.configuration import configuration_of
from mastaba_build.errors import PlanError
from mastaba_build.plan.plan import Plan, make_plan
from mastaba_build.sources.gdal import ALLOWED, restrict
from mastaba_build.work.build import build
from mastaba_build.work.plans import plan_of as any_plan_of
from mastaba_build.work.reports import Reports

LEVEL = 10
HERE = grid(*aligned(LEVEL, 300, 500), cell(LEVEL))
OPTIONS: dict[str, Any] = {"format": "zip", "top": str(LEVEL), "slab": [1, 1], "workers": 1}
OUTSIDE = "outside the folders of the sources"
NETWORK = "is on the network"
Write = Callable[["Ground"], str]


class Ground:
    """A folder that was given, and a file outside it that must not be read."""

    def __init__(self, folder: Path, url: str) -> None:
        self.url = url
        self.given = folder / "given"
        self.given.mkdir()
        (folder / "private").mkdir()
        self.secret = raster(folder / "private/secret.tif", 200)
        self.text = folder / "private/secret.txt"
        self.text.write_bytes(b"root:x:0:0:" * 6000)
        self.inside = raster(self.given / "inside.tif", 10)

    def write(self, name: str, text: str) -> str:
        path = self.given / name
        path.write_text(text)
        return str(path)


def raster(path: Path, value: int) -> Path:
    return write_raster(path, np.full((1, 256, 256), value, np.uint8), HERE, "EPSG:3857")


def vrt(name: str, *, relative: int = 0, tag: str = "SourceFilename") -> str:
    """Return a VRT of one file."""
    numbers = ", ".join(map(str, HERE.to_gdal()))
    return (
        f'<VRTDataset rasterXSize="256" rasterYSize="256"><SRS>EPSG:3857</SRS>'
        f'<GeoTransform>{numbers}</GeoTransform><VRTRasterBand dataType="Byte" band="1">'
        f'<SimpleSource><{tag} relativeToVRT="{relative}">{name}</{tag}>'
        "<SourceBand>1</SourceBand></SimpleSource></VRTRasterBand></VRTDataset>"
    )


def raw(name: str) -> str:
    numbers = ", ".join(map(str, HERE.to_gdal()))
    return (
        f'<VRTDataset rasterXSize="256" rasterYSize="256"><SRS>EPSG:3857</SRS>'
        f"<GeoTransform>{numbers}</GeoTransform>"
        '<VRTRasterBand dataType="Byte" band="1" subClass="VRTRawRasterBand">'
        f'<SourceFilename relativeToVRT="0">{name}</SourceFilename>'
        "<PixelOffset>1</PixelOffset><LineOffset>256</LineOffset></VRTRasterBand></VRTDataset>"
    )


def warped(ground: Ground) -> str:
    """Return a VRT that warps the secret file, as gdalwarp writes it."""
    path = ground.given / "warped.vrt"
    with rasterio.open(ground.secret) as source, rasterio.vrt.WarpedVRT(source) as dataset:
        rasterio.shutil.copy(dataset, path, driver="VRT")
    assert "SourceDataset" in path.read_text()
    return str(path)


def nested(ground: Ground) -> str:
    ground.write("inner.vrt", vrt(str(ground.secret)))
    return ground.write("a.vrt", vrt("inner.vrt", relative=1))


def escaped(text: str) -> str:
    return text.replace("<", "&lt;").replace('"', "&quot;")


def archive(ground: Ground, *, is_inside: bool) -> str:
    path = (ground.given if is_inside else ground.secret.parent) / "sheets.zip"
    with ZipFile(path, "w") as file:
        file.write(ground.inside, "sheet.tif")
    return f"/vsizip/{path}/sheet.tif"


def link(ground: Ground, name: str, target: Path) -> str:
    path = ground.given / name
    path.symlink_to(target)
    return str(path)


def folder_with_link(ground: Ground) -> str:
    link(ground, "link.tif", ground.secret)
    return str(ground.given)


def folder_with_linked_header(ground: Ground) -> str:
    """A header that makes pixels of any file."""
    folder = ground.given / "raw"
    folder.mkdir()
    (folder / "a.bil").symlink_to(ground.text)
    keys = {"NROWS": 256, "NCOLS": 256, "NBITS": 8, "NBANDS": 1}
    keys |= {"ULXMAP": HERE.c, "ULYMAP": HERE.f, "XDIM": HERE.a, "YDIM": HERE.a}
    (folder / "a.hdr").write_text("\n".join(f"{key} {value}" for key, value in keys.items()))
    return str(folder)


def stac(ground: Ground, href: str) -> str:
    asset = {"href": href, "roles": ["data"]}
    item = {"type": "Feature", "stac_version": "1.0.0", "id": "a", "assets": {"a": asset}}
    return ground.write("item.json", json.dumps(item))


def index_json(ground: Ground, location: str) -> str:
    x, y, side = HERE.c, HERE.f, 256 * HERE.a
    corners = [[x, y], [x + side, y], [x + side, y - side], [x, y - side], [x, y]]
    document = {
        "type": "FeatureCollection",
        "crs": {"type": "name", "properties": {"name": "urn:ogc:def:crs:EPSG::3857"}},
        "features": [
            {
                "type": "Feature",
                "properties": {"location": location},
                "geometry": {"type": "Polygon", "coordinates": [corners]},
            }
        ],
    }
    return ground.write("index.geojson", json.dumps(document))


def index_xml(ground: Ground) -> str:
    index = index_json(ground, str(ground.secret))
    return ground.write(
        "index.gti",
        f"<GDALTileIndexDataset><IndexDataset>{index}</IndexDataset>"
        "<LocationField>location</LocationField></GDALTileIndexDataset>",
    )


def index_gpkg(ground: Ground) -> str:
    path = str(ground.given / "index.gti.gpkg")
    index_json(ground, str(ground.secret))
    pyogrio = pytest.importorskip("pyogrio.raw")
    meta, _, geometry, fields = pyogrio.read(str(ground.given / "index.geojson"))
    pyogrio.write(
        path,
        geometry,
        fields,
        meta["fields"],
        crs=meta["crs"],
        geometry_type="Polygon",
        driver="GPKG",
    )
    return path


def wms(ground: Ground, url: str) -> str:
    return ground.write(
        "wms.xml",
        f'<GDAL_WMS><Service name="TMS"><ServerUrl>{url}</ServerUrl></Service><DataWindow>'
        "<UpperLeftX>-20037508</UpperLeftX><UpperLeftY>20037508</UpperLeftY>"
        "<LowerRightX>20037508</LowerRightX><LowerRightY>-20037508</LowerRightY>"
        "<TileLevel>3</TileLevel><TileCountX>1</TileCountX><TileCountY>1</TileCountY>"
        "</DataWindow><Projection>EPSG:3857</Projection><BlockSizeX>256</BlockSizeX>"
        "<BlockSizeY>256</BlockSizeY><BandsCount>1</BandsCount></GDAL_WMS>",
    )


def beside(ground: Ground, end: str) -> str:
    """A file that GDAL finds by the name of another, and that is a link."""
    with rasterio.open(ground.secret, "r+") as dataset:
        dataset.build_overviews([2], rasterio.enums.Resampling.nearest)
    return link(ground, f"inside.tif{end}", ground.secret).removesuffix(end)


def overviews_in_metadata(ground: Ground) -> str:
    with rasterio.open(ground.inside, "r+") as dataset:
        dataset.update_tags(ns="OVERVIEWS", OVERVIEW_FILE=str(ground.secret))
    return str(ground.inside)


def overviews_in_aux(ground: Ground) -> str:
    ground.write(
        "inside.tif.aux.xml",
        '<PAMDataset><Metadata domain="OVERVIEWS">'
        f'<MDI key="OVERVIEW_FILE">{ground.secret}</MDI></Metadata></PAMDataset>',
    )
    return str(ground.inside)


def pyramid(ground: Ground) -> str:
    """A descriptor whose slabs are elsewhere."""
    other = ground.secret.parent / "pyramid"
    plan = plan_in(other, ground.secret, **OPTIONS)
    assert build(plan, Reports(StringIO(), StringIO()))
    document = json.loads((other / "out/map.json").read_text())
    for level in document["levels"]:
        level["storage"]["image_directory"] = f"../private/pyramid/out/map/DATA/{level['id']}"
    return ground.write("map.json", json.dumps(document))


OUTSIDE_CASES: dict[str, Write] = {
    "vrt": lambda one: one.write("a.vrt", vrt(str(one.secret))),
    "relative": lambda one: one.write("a.vrt", vrt("../private/secret.tif", relative=1)),
    "any case": lambda one: one.write("a.vrt", vrt(str(one.secret), tag="sourceFILENAME")),
    "other name": lambda one: one.write("a.png", vrt(str(one.secret))),
    "nested": nested,
    "inline": lambda one: one.write("a.vrt", vrt(escaped(vrt(str(one.secret))))),
    "connection": lambda one: one.write("a.vrt", vrt(f"vrt://{one.secret}?bands=1")),
    "directory of TIFF": lambda one: one.write("a.vrt", vrt(f"GTIFF_DIR:1:{one.secret}")),
    "raw": lambda one: one.write("a.vrt", raw(str(one.text))),
    "warped": warped,
    "zip": lambda one: one.write("a.vrt", vrt(archive(one, is_inside=False))),
    "folder with a link": folder_with_link,
    "header of a link": folder_with_linked_header,
    "linked folder": lambda one: f"{link(one, 'sub', one.secret.parent)[:-3]}*/*.tif",
    "stac absolute": lambda one: stac(one, str(one.secret)),
    "stac relative": lambda one: stac(one, "../private/secret.tif"),
    "stac file": lambda one: stac(one, f"file://{one.secret}"),
    "stac zip": lambda one: stac(one, f"zip://{archive(one, is_inside=False)[8:-10]}!sheet.tif"),
    "index": lambda one: f"GTI:{index_json(one, str(one.secret))}",
    "index relative": lambda one: f"GTI:{index_json(one, '../private/secret.tif')}",
    "index in XML": index_xml,
    "index in GeoPackage": index_gpkg,
    "map service of a file": lambda one: wms(one, f"file://{one.secret}"),
    "linked overviews": lambda one: beside(one, ".ovr"),
    "linked mask": lambda one: beside(one, ".msk"),
    "overviews in metadata": overviews_in_metadata,
    "overviews in aux": overviews_in_aux,
    "pyramid": pyramid,
}


@pytest.fixture
def requests() -> Iterator[list[str]]:
    """Return the paths that a server on this machine is asked for; the first entry is its URL."""
    found: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found.append(self.path)
            self.send_error(404)

        do_HEAD = do_GET  # noqa: N815

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    found.append(f"http://127.0.0.1:{server.server_port}")
    yield found
    server.shutdown()
    server.server_close()


def planned(ground: Ground, source: str, access: Access | None = None, **more: Any) -> Plan:
    entry = {"path": source, **more}
    values = {"name": "map", "output": str(ground.given.parent / "out"), "sources": [entry]}
    return make_plan(configuration_of(values | OPTIONS, "test", access=access or Access()))


@pytest.mark.parametrize("case", OUTSIDE_CASES)
def test_nothing_outside_the_folder_is_opened(
    tmp_path: Path, requests: list[str], case: str
) -> None:
    ground = Ground(tmp_path, requests[0])
    source = OUTSIDE_CASES[case](ground)
    with pytest.raises(PlanError, match=OUTSIDE):
        planned(ground, source, use_overviews=True)
    assert len(requests) == 1


REMOTE_CASES: dict[str, Write] = {
    "url": lambda one: f"{one.url}/a.tif",
    "curl": lambda one: f"/vsicurl/{one.url}/a.tif",
    "curl with options": lambda one: f"/vsicurl?url={one.url}/a.tif",
    "vrt": lambda one: one.write("a.vrt", vrt(f"/vsicurl/{one.url}/a.tif")),
    "relative": lambda one: one.write("a.vrt", vrt(f"/vsicurl/{one.url}/a.tif", relative=1)),
    "download": lambda one: one.write("a.vrt", vrt(f"{one.url}/a.tif")),
    "zip": lambda one: one.write("a.vrt", vrt(f"/vsizip//vsicurl/{one.url}/a.zip/a.tif")),
    "braces": lambda one: one.write("a.vrt", vrt(f"/vsizip/{{/vsicurl/{one.url}/a.zip}}/a.tif")),
    "stac": lambda one: stac(one, f"{one.url}/a.tif"),
    "stac document": lambda one: stac(one, f"{one.url}/a.json"),
    "index": lambda one: f"GTI:{index_json(one, f'/vsicurl/{one.url}/a.tif')}",
    "map service": lambda one: wms(one, f"{one.url}/${{z}}/${{x}}/${{y}}.png"),
    "named map service": lambda one: f"WMS:{one.url}/wms?LAYERS=a",
    "list": lambda one: one.write("list.txt", f"{one.url}/a.tif\n"),
}


@pytest.mark.parametrize("case", REMOTE_CASES)
def test_no_url_is_opened(tmp_path: Path, requests: list[str], case: str) -> None:
    ground = Ground(tmp_path, requests[0])
    source = REMOTE_CASES[case](ground)
    with pytest.raises(PlanError, match=NETWORK):
        planned(ground, source)
    assert len(requests) == 1


def test_urls_are_opened_where_they_are_allowed(tmp_path: Path, requests: list[str]) -> None:
    ground = Ground(tmp_path, requests[0])
    source = REMOTE_CASES["stac"](ground)
    with pytest.raises(PlanError) as raised:
        planned(ground, source, Access(network=True))
    assert NETWORK not in str(raised.value)
    assert len(requests) > 1
    with pytest.raises(PlanError, match=NETWORK):  # the process knows fewer drivers again
        planned(ground, source)


@pytest.fixture
def served(tmp_path: Path) -> Iterator[str]:
    """Serve a folder with ranges, as object stores do, and return its URL."""
    folder = tmp_path / "served"
    folder.mkdir()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = folder / self.path.removeprefix("/")
            if not path.is_file():
                self.send_error(404)
                return
            data, code = path.read_bytes(), 200
            first, last = 0, len(data) - 1
            wanted = self.headers.get("Range", "").removeprefix("bytes=")
            if wanted:
                code, (start, end) = 206, wanted.split("-")
                first, last = int(start), min(int(end or last), last)
            self.send_response(code)
            self.send_header("Accept-Ranges", "bytes")
            self.send_header("Last-Modified", formatdate(path.stat().st_mtime, usegmt=True))
            self.send_header("Content-Length", str(last + 1 - first))
            if wanted:
                self.send_header("Content-Range", f"bytes {first}-{last}/{len(data)}")
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(data[first : last + 1])

        do_HEAD = do_GET  # noqa: N815

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_sources_on_the_network_are_built(
    tmp_path: Path, served: str, command: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    raster(tmp_path / "served/far.tif", 10)
    ground = Ground(tmp_path, served)
    sources = [
        f"{served}/far.tif",
        ground.write("a.vrt", vrt(f"/vsicurl/{served}/far.tif")),
        stac(ground, f"{served}/far.tif"),
    ]
    words = ["--output", tmp_path / "out", "--name", "map", "--top", str(LEVEL), "--replace"]
    words += ["--format", "zip", "--slab", "1x1", "--workers", "1", "--allow-network"]
    for source in sources:
        done = command(source, *words)
        assert done.returncode == 0, done.stderr
        tiles = read_tiles(tmp_path / "out/map.json")
        assert (tiles[str(LEVEL), 300, 500] == 10).all(), source
    done = command(f"{served}/none.tif", *words)
    assert done.returncode == 2
    assert f"{served}/none.tif: cannot be opened: " in done.stderr


def test_changed_sources_on_the_network_are_built_again(
    tmp_path: Path, served: str, command: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    far = tmp_path / "served/far.tif"
    source = Ground(tmp_path, served).write("a.vrt", vrt(f"/vsicurl/{served}/far.tif"))
    words = ["--output", tmp_path / "out", "--name", "map", "--top", str(LEVEL), "--update"]
    words += ["--format", "zip", "--slab", "1x1", "--workers", "1", "--allow-network"]
    for value, seconds, says in [(10, 0, "Published"), (10, 0, "complete"), (20, 9, "Published")]:
        raster(far, value)
        os.utime(far, (1e9 + seconds, 1e9 + seconds))
        done = command(source, *words)
        assert done.returncode == 0, done.stderr
        assert says in done.stdout
        tiles = read_tiles(tmp_path / "out/map.json")
        assert (tiles[str(LEVEL), 300, 500] == value).all()


def vrt_in_archive(ground: Ground) -> str:
    path = ground.given / "sheets.zip"
    with ZipFile(path, "w") as file:
        file.writestr("a.vrt", vrt(str(ground.secret)))
    return f"/vsizip/{path}/a.vrt"


NOT_OPENED: dict[str, Write] = {
    "cdata": lambda one: one.write("a.vrt", vrt(f"<![CDATA[{one.secret}]]>")),
    "after a comment": lambda one: one.write("a.vrt", vrt(f"<!-- a -->{one.secret}")),
    "before a comment": lambda one: one.write(
        "a.vrt", vrt(f"{one.secret}<!-- a -->/../../given/inside.tif")
    ),
    "after an element": lambda one: one.write("a.vrt", vrt(f"<a/>{one.secret}")),
    "attribute twice": lambda one: one.write(
        "a.vrt", vrt("inside.tif").replace("relativeToVRT", 'relativetovrt="1" relativeToVRT')
    ),
    "vrt in an archive": vrt_in_archive,
    "vrt of a vrt in an archive": lambda one: one.write("a.vrt", vrt(vrt_in_archive(one))),
    "archive in an archive": lambda one: f"/vsizip//vsizip/{one.given}/a.zip/b.zip/c.tif",
    "document type": lambda one: one.write(
        "a.vrt", f'<!DOCTYPE a [<!ENTITY f "{one.secret}">]>{vrt("&f;")}'
    ),
    "broken XML": lambda one: one.write("a.vrt", vrt(str(one.inside)) + "</a>"),
    "memory": lambda one: one.write("a.vrt", vrt("/vsimem/a.tif")),
    "parts of files": lambda one: one.write("a.vrt", vrt(f"/vsisubfile/0_9,{one.secret}")),
    "cached": lambda one: one.write("a.vrt", vrt(f"/vsicached?file={one.secret}")),
    "standard input": lambda one: one.write("a.vrt", vrt("/vsistdin/")),
    "unknown connection": lambda one: one.write(
        "a.vrt", vrt(f"DERIVED_SUBDATASET:AMPLITUDE:{one.secret}")
    ),
    "itself": lambda one: one.write("a.vrt", vrt("a.vrt", relative=1)),
    "up in a zip": lambda one: (
        f"/vsizip/{archive(one, is_inside=False)[8:-10]}/../../given/inside.tif"
    ),
    "other driver": lambda one: one.write(
        "a.xml", f"<MRF_META><CachedSource><Source>{one.secret}</Source></CachedSource></MRF_META>"
    ),
}


@pytest.mark.parametrize("case", NOT_OPENED)
def test_what_cannot_be_checked_is_not_opened(tmp_path: Path, case: str) -> None:
    ground = Ground(tmp_path, "")
    with pytest.raises(PlanError):
        planned(ground, NOT_OPENED[case](ground))


def test_a_database_must_not_have_virtual_tables(tmp_path: Path) -> None:
    ground = Ground(tmp_path, "")
    path = ground.given / "a.mbtiles"
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE metadata (name, value)")
        database.execute("INSERT INTO metadata VALUES ('format', 'png')")
        database.execute("PRAGMA writable_schema = ON")
        database.execute(
            "INSERT INTO sqlite_master VALUES ('table', 'tiles', 'tiles', 0, "
            f"'CREATE VIRTUAL TABLE tiles USING VirtualOGR(''{ground.secret}'')')"
        )
        database.commit()
    with pytest.raises(PlanError, match="contains the virtual table 'tiles'"):
        planned(ground, str(path))


@pytest.mark.parametrize("end", [".gpkg", ".fgb", ".shp"])
def test_features_are_what_their_name_says(tmp_path: Path, end: str) -> None:
    ground = Ground(tmp_path, "")
    source = ground.write(
        f"a{end}",
        '<OGRVRTDataSource><OGRVRTLayer name="secret"><SrcDataSource>'
        f"CSV:{ground.text}</SrcDataSource></OGRVRTLayer></OGRVRTDataSource>",
    )
    values = {"name": "map", "output": str(tmp_path / "out"), "sources": [source]}
    with pytest.raises(PlanError, match=f"its content is not that of a {end} file"):
        any_plan_of(configuration_of(values, "test"))


def test_tiles_of_a_directory_are_in_it(tmp_path: Path) -> None:
    folder = tmp_path / "tiles/0/0"
    folder.mkdir(parents=True)
    secret = tmp_path / "secret.json"
    secret.write_text('{"description": "secret"}')
    (folder / "0.pbf").write_bytes(b"")
    (tmp_path / "tiles/metadata.json").symlink_to(secret)
    values = {"name": "map", "output": str(tmp_path / "out"), "sources": [str(tmp_path / "tiles")]}
    with pytest.raises(PlanError, match=r"metadata\.json: is a link to .*secret\.json, outside"):
        any_plan_of(configuration_of(values, "test"))
    (tmp_path / "tiles/metadata.json").unlink()
    (folder / "0.pbf").unlink()
    (folder / "0.pbf").symlink_to(secret)
    with pytest.raises(PlanError, match=r"0\.pbf: is a link to .*secret\.json, outside"):
        any_plan_of(configuration_of(values, "test"))


def test_what_the_user_names_is_opened(tmp_path: Path, build_of: Build) -> None:
    ground = Ground(tmp_path, "")
    (tmp_path / "elsewhere").mkdir()
    far = raster(tmp_path / "elsewhere/far.tif", 10)
    sources = [
        str(far),
        link(ground, "link.tif", far),  # a link that is named itself
        ground.write("list.txt", f"{far}\n"),
        archive(ground, is_inside=True),
        archive(ground, is_inside=True).replace("/vsizip/", "zip://").replace("zip/s", "zip!s"),
        ground.write("a.vrt", vrt("inside.tif", relative=1)),
        ground.write("b.vrt", vrt(archive(ground, is_inside=True))),
        f"vrt://{ground.inside}?bands=1",
        stac(ground, "inside.tif"),
        f"GTI:{index_json(ground, str(ground.inside))}",
        str(ground.given / "in*.tif"),
        f"file://{ground.inside}",
    ]
    for number, source in enumerate(sources):
        descriptor = build_of({"path": source}, name=f"m{number}", **OPTIONS)
        assert (read_tiles(descriptor)[str(LEVEL), 300, 500] == 10).all(), source


def test_further_folders_and_drivers_are_allowed_on_the_command_line(
    tmp_path: Path, command: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    ground = Ground(tmp_path, "")
    source = ground.write("a.vrt", vrt(str(ground.secret)))
    words = [source, "--output", tmp_path / "out", "--top", str(LEVEL), "--slab", "1x1"]
    done = command(*words)
    assert done.returncode == 2
    assert f"names {ground.secret}, which is {OUTSIDE}" in done.stderr
    assert f"--allow-folder {ground.secret.parent}" in done.stderr
    assert not list(tmp_path.glob("out/*.json"))
    done = command(*words, "--allow-folder", ground.secret.parent)
    assert done.returncode == 0, done.stderr
    done = command(*words, "--allow-driver", "NOPE")
    assert done.returncode == 2
    assert "GDAL has no driver 'NOPE'" in done.stderr


def test_a_configuration_file_cannot_allow_more(tmp_path: Path) -> None:
    for key in ("access", "allow_network", "allow_folder", "allow_driver"):
        values = {"name": "a", "output": str(tmp_path), "sources": ["a.tif"], key: True}
        with pytest.raises(PlanError, match=key):
            configuration_of(values, "job.yaml")


def test_a_source_that_changes_during_the_build_is_checked_again(tmp_path: Path) -> None:
    ground = Ground(tmp_path, "")
    source = Path(ground.write("a.vrt", vrt(str(ground.inside))))
    plan = planned(ground, str(source))
    source.write_text(vrt(str(ground.secret)))
    errors = StringIO()
    assert not build(plan, Reports(StringIO(), errors))
    assert OUTSIDE in errors.getvalue()


def test_a_driver_that_is_not_allowed_is_allowed_by_name(tmp_path: Path) -> None:
    ground = Ground(tmp_path, "")
    path = ground.given / "a.rst"
    restrict(Access(drivers=("MRF",)))
    with rasterio.open(ground.inside) as dataset:
        rasterio.shutil.copy(dataset, path, driver="MRF")
    assert "MRF" not in ALLOWED
    with pytest.raises(PlanError, match="its GDAL driver needs --allow-driver"):
        planned(ground, str(path))
    assert planned(ground, str(path), Access(drivers=("MRF",))).sources


@pytest.mark.parametrize("offset", [0, 512, 4096])
def test_hdf5_may_read_other_files(tmp_path: Path, offset: int) -> None:
    ground = Ground(tmp_path, "")
    path = ground.given / "a.nc"
    path.write_bytes(bytes(offset) + b"\x89HDF\r\n\x1a\n" + bytes(100))
    with pytest.raises(PlanError, match="--allow-driver HDF5"):
        planned(ground, str(path))
    with pytest.raises(PlanError, match="cannot be opened"):
        planned(ground, str(path), Access(drivers=("HDF5",)))
