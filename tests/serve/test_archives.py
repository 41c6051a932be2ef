"""Archives that are served without a configuration: each equals its source."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import rasterio
import rasterio.shutil
from rasterio.io import MemoryFile
from rasterio.transform import Affine
from tests.conftest import OpenClient
from tests.container_pmtiles.test_archives import PNG, archive
from tests.container_sqlite.ground import picture, web_tiles, write_geopackage, write_mbtiles
from tests.export.ground import planned
from tests.serve.test_command import failure
from werkzeug.test import Client

from mastaba.plugins.manager import Plugins
from mastaba_export.run import run
from mastaba_serve.installation import check, write

STRANGE = '<a href="javascript:alert(1)">© A &amp; B</a> &lt;script&gt;alert(2)&lt;/script&gt;'
NODATA = -9999.0


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("archives")


@pytest.fixture(scope="module")
def heights(folder: Path) -> np.ndarray:
    """Write a COG of floats, and return its values."""
    values = np.arange(512 * 512, dtype=np.float32).reshape(512, 512)
    values[:64, :64] = NODATA
    profile = {"driver": "GTiff", "width": 512, "height": 512, "count": 1, "dtype": "float32"}
    place = {"crs": "EPSG:32631", "transform": Affine(10, 0, 500000, 0, -10, 4600000)}
    with MemoryFile() as memory, memory.open(**profile, **place, nodata=NODATA) as source:
        source.write(values, 1)
        source.update_tags(TIFFTAG_COPYRIGHT="A <b>survey</b>")
        rasterio.shutil.copy(
            source, folder / "heights.tif", driver="COG", BLOCKSIZE=256, COMPRESS="DEFLATE"
        )
    return values


@pytest.fixture(scope="module")
def archives(folder: Path, heights: np.ndarray, client: Client) -> list[str]:
    """Write an archive of each container, and return their paths."""
    site = client.application.site
    for name in ("RGB_JPG", "VECTOR"):
        run(planned(site, name, "pmtiles"), folder / f"{name}.pmtiles")
    metadata = {"name": "Photo <b>1</b>", "format": "png", "attribution": STRANGE}
    write_mbtiles(folder / "photo.mbtiles", web_tiles(), metadata)
    write_geopackage(folder / "plan.gpkg", {(1, 1, 2): picture(1)})
    return sorted(str(path) for path in folder.iterdir())


@pytest.fixture(scope="module")
def opened(archives: list[str], folder: Path, open_client: OpenClient) -> Client:
    """Return a client of the installation that the command writes."""
    server_json = write(folder / "installation", archives, "http://localhost")
    check(server_json, Plugins(), archives)
    return open_client(server_json)


def tile_json(client: Client, layer: str) -> dict[str, object]:
    return dict(client.get(f"/tms/1.0.0/{layer}/metadata.json").json or {})


def test_tiles_are_those_of_the_source(opened: Client, client: Client, heights: np.ndarray) -> None:
    def tile(path: str) -> bytes:
        answer = opened.get(f"/tms/1.0.0/{path}")
        assert answer.status_code == 200, path
        return answer.data

    for name in ("RGB_JPG", "VECTOR"):
        level = next(iter(client.application.site.catalogue.layers[name].pyramid.levels.values()))
        place = f"{name}/{level.matrix.id}/{level.limits.min_col}/{level.limits.min_row}"
        source = client.get(f"/tms/1.0.0/{place}.{tile_json(client, name)['format']}")
        assert source.status_code == 200
        assert tile(f"{place}.{tile_json(opened, name)['format']}") == source.data
    for (zoom, column, row), data in web_tiles().items():
        assert tile(f"photo/{zoom}/{column}/{row}.png") == data
    assert tile("plan/1/1/2.png") == picture(1)
    found = np.frombuffer(tile("heights/1/0/0.bil"), np.float32).reshape(256, 256)
    assert np.array_equal(found, heights[:256, :256])


def test_documents_say_what_the_file_does(opened: Client) -> None:
    assert tile_json(opened, "photo")["name"] == "Photo 1"
    assert tile_json(opened, "plan")["name"] == "Map"
    # The file has no title.
    assert tile_json(opened, "heights")["name"] == "heights"
    assert tile_json(opened, "heights")["attribution"] == "A survey"
    assert tile_json(opened, "photo")["minzoom"] == 4
    assert tile_json(opened, "VECTOR")["vector_layers"]


def test_boxes_are_those_of_the_file(opened: Client, heights: np.ndarray) -> None:
    """Not those of the tiles, which are larger."""
    layers = opened.application.site.catalogue.layers
    box = layers["plan"].native_bbox
    assert (box.xmin, box.ymin, box.xmax, box.ymax) == (600000, 6798152, 601848, 6800000)
    level = layers["heights"].pyramid.finest
    box = layers["heights"].native_bbox
    cell = level.matrix.cell_size
    assert (box.xmax - box.xmin) / cell == pytest.approx(heights.shape[1])
    assert (box.ymax - box.ymin) / cell == pytest.approx(heights.shape[0])


def test_the_attribution_of_a_stranger_is_plain_text(
    opened: Client, folder: Path, open_client: OpenClient
) -> None:
    text = "© A & B <script>alert(2)</script>"
    escaped = "© A &amp; B &lt;script&gt;alert(2)&lt;/script&gt;"
    assert tile_json(opened, "photo")["attribution"] == escaped
    capabilities = opened.get("/wms?SERVICE=WMS&REQUEST=GetCapabilities").text
    assert f"<Attribution><Title>{escaped}</Title></Attribution>" in capabilities
    assert f"<Attribution>\n    <Title>{escaped}" in opened.get("/tms/1.0.0/photo").text
    described = opened.get("/viewer/data/layers/photo.json").json
    assert described is not None
    assert described["attribution"] == {"title": text, "url": ""}
    page = opened.get("/viewer/photo").text
    assert "<script>alert" not in page
    assert "javascript:alert" not in page + capabilities
    collection = opened.get("/ogcapi/collections/photo?f=json").text
    assert "javascript:alert" not in collection
    # The descriptor of the layer is stronger.
    layer = folder / "installation" / "layers" / "photo.json"
    own = {"attribution": {"title": "Own", "url": "http://example.org/"}}
    layer.write_text(json.dumps(json.loads(layer.read_text()) | own))
    other = open_client(folder / "installation" / "server.json")
    assert tile_json(other, "photo")["attribution"] == '<a href="http://example.org/">Own</a>'


def test_what_cannot_be_opened_is_said_in_one_line(
    archives: list[str], folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def copy(name: str, source: str, length: int | None = None) -> Path:
        path = tmp_path / name
        path.write_bytes((folder / source).read_bytes()[:length])
        return path

    (tmp_path / "folder.tif").mkdir()
    for path, reason in (
        (copy("a.pmtiles", "heights.tif"), "it is a GeoTIFF"),
        (copy("b.mbtiles", "heights.tif"), "it is a GeoTIFF"),
        (copy("c.tif", "VECTOR.pmtiles"), "it is a PMTiles archive"),
        (copy("d.tiff", "photo.mbtiles"), "it is an SQLite database"),
        (copy("e.mbtiles", "plan.gpkg"), "it is a GeoPackage: "),
        (copy("e", "heights.tif"), "its suffix is not one of .json, .gpkg, "),
        (copy("f.pmtiles", "RGB_JPG.pmtiles", 17_000), "it is incomplete: it ends after 17000 "),
        (copy("g.tif", "heights.tif", 20_000), "it is incomplete: it ends after 20000 "),
        (copy("h.mbtiles", "photo.mbtiles", 9_000), "the database is damaged; "),
        (copy("i.tif", "heights.tif", 0), "it is empty"),
        (copy("photo.mbtiles", "photo.mbtiles"), "another file has the name 'photo'"),
        (tmp_path / "folder.tif", "there is no GeoTIFF in it"),
    ):
        message = failure(capsys, folder / "photo.mbtiles", path)
        assert message.startswith(f"mastaba serve: {path}: {reason}"), message
        assert message.count("\n") == 1
        # Nobody has written this folder.
        assert "mastaba-serve-" not in message


def test_a_folder_of_cogs_is_a_mosaic(tmp_path: Path, open_client: OpenClient) -> None:
    values = np.arange(256 * 512, dtype=np.float32).reshape(256, 512)
    (tmp_path / "sheets").mkdir()
    for name, left in (("west.tif", 0), ("east.tif", 256)):
        profile = {"driver": "GTiff", "width": 256, "height": 256, "count": 1, "dtype": "float32"}
        place = Affine(10, 0, 500000 + 10 * left, 0, -10, 4600000)
        with (
            MemoryFile() as memory,
            memory.open(**profile, crs="EPSG:32631", transform=place) as source,
        ):
            source.write(values[:, left : left + 256], 1)
            target = tmp_path / "sheets" / name
            rasterio.shutil.copy(source, target, driver="COG", BLOCKSIZE=128)
    files = [str(tmp_path / "sheets")]
    server_json = write(tmp_path / "installation", files, "http://localhost")
    check(server_json, Plugins(), files)
    client = open_client(server_json)
    site = client.application.site
    layer = site.catalogue.layers["sheets"]
    reader = site.catalogue.readers["sheets"][list(layer.pyramid.levels)[-1]]
    rows = []
    for row in range(2):
        tiles = [reader.locate(reader.level.limits.min_row + row, col) for col in range(4)]
        rows.append(np.concatenate([reader.decoder.decode(tile.read()) for tile in tiles], axis=1))
    np.testing.assert_array_equal(np.concatenate(rows)[..., 0], values)


def test_archives_with_tiles_of_512_pixels_share_a_set(
    tmp_path: Path, open_client: OpenClient
) -> None:
    tile = picture(1, size=512)
    for zoom, number in ((0, 0), (3, 21)):
        data = archive([(number, 1, len(tile), 0)], tile, kind=PNG, zooms=(zoom, zoom))
        (tmp_path / f"zoom{zoom}.pmtiles").write_bytes(data)
    write_mbtiles(tmp_path / "zoom5.mbtiles", {(5, 4, 2): tile})
    files = [str(path) for path in sorted(tmp_path.iterdir())]
    server_json = write(tmp_path / "installation", files, "http://localhost")
    check(server_json, Plugins(), files)
    client = open_client(server_json)
    layers = client.application.site.catalogue.layers.values()
    assert {layer.pyramid.tile_matrix_set.id for layer in layers} == {"WebMercatorQuad512"}
    for layer, place in (("zoom0", "0/0/0"), ("zoom3", "3/0/0"), ("zoom5", "5/2/4")):
        tiles = f"/ogcapi/collections/{layer}/map/tiles"
        answer = client.get(f"{tiles}/WebMercatorQuad512/{place}")
        assert (answer.status_code, answer.data) == (200, tile), layer
