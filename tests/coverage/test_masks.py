"""Masks in files of coverages: which cells have data, as mask slabs say."""

from __future__ import annotations

import io
import json
import random
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image
from tests.build.ground import slab_index
from tests.coverage.ground import LEVELS, SET, SLAB, TILE, Ground, is_stored, written
from tests.coverage.test_readers import SYSTEM_PYTHON, VALIDATOR
from tests.export.service.test_remote_results import Bucket, BucketPlugin, bucket
from tifffile import TiffFile
from werkzeug.test import Client

from mastaba.errors import InvalidParameterError, ObjectChangedError
from mastaba.plugins.manager import Plugins
from mastaba.wsgi import create_application
from mastaba_coverage import (
    Answer,
    Cells,
    Coverage,
    CoverageLimits,
    CoveragePlan,
    CoverageRequest,
    CoverageTooLargeError,
    Extractor,
    Scaling,
    TiffOptions,
    extract,
    side_of_parts,
)
from mastaba_coverage.heads import HeadCache
from mastaba_coverage.made import MadeStored, made_file
from mastaba_writer.pyramids import write_pyramid

__all__ = ["bucket"]

rasterio = pytest.importorskip("rasterio")
cog_validate = pytest.importorskip("rio_cogeo.cogeo").cog_validate

pytestmark = pytest.mark.filterwarnings("ignore:Dataset has no geotransform")

Mask = npt.NDArray[np.bool_]
FORMATS = [
    ("TIFF_ZIP_FLOAT32", 1, True),
    ("TIFF_JPG_UINT8", 3, False),
    *(
        pytest.param(*case, marks=pytest.mark.thorough)
        for case in (
            ("TIFF_ZIP_FLOAT32", 1, False),
            ("TIFF_JPG_UINT8", 3, True),
            ("TIFF_PNG_UINT8", 3, True),
            ("TIFF_RAW_UINT8", 1, False),
        )
    ),
]
"""Formats, channels, and whether tiles without data are left out."""
MASKED = CoverageRequest(is_cog=True, tiff=TiffOptions(mask=True))


def has_mask(level: str, row: int, col: int) -> bool:
    """Return whether the mask of a tile is stored: one slab of the finest level is absent."""
    return level != "3" or (row // SLAB, col // SLAB) != (2, 2)


def mask_tile(level: str, row: int, col: int, seed: int = 0) -> npt.NDArray[np.uint8] | None:
    if (level == "3" and not is_stored(row, col)) or not has_mask(level, row, col):
        return None
    found = np.random.default_rng([seed, int(level), row, col]).integers(0, 2, (TILE, TILE, 1))
    return (found * 255).astype(np.uint8)


class MaskedGround(Ground):
    """The ground, with mask slabs."""

    def write(self, **changes: Any) -> None:
        super().write(**changes)
        self.write_masks()

    def write_masks(self, seed: int = 0) -> None:
        folder = self.directory / "pyramids"
        write_pyramid(
            folder,
            "masks",
            tile_matrix_set=SET,
            format="TIFF_ZIP_UINT8",
            channels=1,
            nodata=[0],
            levels=LEVELS,
            tile=lambda level, row, col: mask_tile(level, row, col, seed),
            tiles_per_width=SLAB,
            tiles_per_height=SLAB,
        )
        described = json.loads((folder / "ground.json").read_text())
        masks = json.loads((folder / "masks.json").read_text())
        for level, mask in zip(described["levels"], masks["levels"], strict=True):
            assert level["id"] == mask["id"]
            level["storage"]["mask_directory"] = mask["storage"]["image_directory"]
        described["mask_format"] = "TIFF_ZIP_UINT8"
        (folder / "ground.json").write_text(json.dumps(described))

    def valid(self, level: str, cells: Cells) -> Mask:
        """Return which cells of a level have data."""
        found = np.zeros((cells.rows, cells.columns), np.bool_)
        plan = next(one for one in LEVELS if one.id == level)
        for row in range(plan.min_row, plan.max_row + 1):
            for col in range(plan.min_col, plan.max_col + 1):
                tile = mask_tile(level, row, col)
                if tile is None:
                    # A tile without a mask is data, all of it.
                    is_there = level != "3" or is_stored(row, col)
                    tile = np.full((TILE, TILE, 1), 255 if is_there else 0, np.uint8)
                top, left = row * TILE - cells.top, col * TILE - cells.left
                inside = np.s_[max(top, 0) : max(top + TILE, 0), max(left, 0) : max(left + TILE, 0)]
                part = tile[max(-top, 0) :, max(-left, 0) :, 0] > 0
                target = found[inside]
                target[...] = part[: target.shape[0], : target.shape[1]]
        return found


Make = Callable[..., MaskedGround]


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Make]:
    opened: list[MaskedGround] = []

    @cache
    def make(name: str = "TIFF_ZIP_FLOAT32", channels: int = 1) -> MaskedGround:
        opened.append(MaskedGround(tmp_path_factory.mktemp("ground"), name, channels))
        return opened[-1]

    yield make
    for one in opened:
        one.close()


def planned(ground: Ground, request: CoverageRequest = MASKED, **limits: int) -> CoveragePlan:
    site = ground.application.site
    plan = Extractor(site, CoverageLimits(**limits)).plan(ground.coverage, request)
    assert isinstance(plan, CoveragePlan)
    return plan


def read_mask(path: Path, overview: int | None = None) -> Mask:
    options = {} if overview is None else {"overview_level": overview}
    with rasterio.open(path, **options) as source:
        flags = {flag.name for found in source.mask_flag_enums for flag in found}
        assert flags == {"per_dataset"}
        mask: Mask = source.read_masks(1) > 0
        return mask


def check(path: Path) -> None:
    """Check a COG with both validators."""
    assert cog_validate(path, strict=True) == (True, [], [])
    if shutil.which("gdalinfo"):
        command = [SYSTEM_PYTHON, "-m", VALIDATOR, "--full-check=yes", str(path)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(("name", "channels", "is_sparse"), FORMATS)
def test_cog_with_masks(
    name: str, channels: int, is_sparse: bool, ground: Make, tmp_path: Path
) -> None:
    made = ground(name, channels)
    request = replace(MASKED, tiff=TiffOptions(mask=True, is_sparse=is_sparse))
    plan = planned(made, request)
    path = written(made.extract(plan), tmp_path / "masked.tif")
    check(path)
    for number, level in enumerate(["3", "2", "1"]):
        step = 1 << number
        edges = (plan.cells.top, plan.cells.bottom, plan.cells.left, plan.cells.right)
        cells = Cells(*(-(-edge // step) for edge in edges))
        expected = made.valid(level, cells)
        found = read_mask(path, None if number == 0 else number - 1)
        assert np.array_equal(found, expected)
    # The pixels are those of the file without masks.
    plain = written(made.extract(replace(plan, has_mask=False)), tmp_path / "plain.tif")
    with rasterio.open(path) as one, rasterio.open(plain) as other:
        assert one.overviews(1) == other.overviews(1) == [2, 4]
        valid = np.broadcast_to(read_mask(path), (channels, *one.shape))
        assert one.read()[valid].tobytes() == other.read()[valid].tobytes()
        is_float = "FLOAT" in name
        assert one.nodata == (-99999 if is_float else None)


def test_each_tile_of_a_mask_lies_behind_that_of_its_image(ground: Make, tmp_path: Path) -> None:
    made = ground()
    path = written(made.extract(planned(made)), tmp_path / "masked.tif")
    data = path.read_bytes()
    assert b"MASK_INTERLEAVED_WITH_IMAGERY=YES\n" in data[:300]
    assert data[8:].startswith(b"GDAL_STRUCTURAL_METADATA_SIZE=000174 bytes\n")
    with TiffFile(path) as file:
        pages = list(file.pages)
        kinds = [int(page.tags[254].value) for page in pages]
        # The order of GDAL.
        assert kinds == [0, 4, 1, 1, 5, 5]
        pairs = [(pages[0], pages[1]), (pages[2], pages[4]), (pages[3], pages[5])]
        for image, mask in pairs:
            assert (mask.imagewidth, mask.imagelength) == (image.imagewidth, image.imagelength)
            assert int(mask.photometric) == 4
            assert mask.bitspersample == mask.samplesperpixel == 1
            places = zip(
                *(image.dataoffsets, image.databytecounts, mask.dataoffsets, mask.databytecounts),
                strict=True,
            )
            for offset, size, behind, length in places:
                assert bool(size) == bool(length)
                if size:
                    assert behind == offset + size + 8
                    assert data[behind - 4 : behind] == length.to_bytes(4, "little")
                    assert data[behind + length :][:4] == data[behind + length - 4 :][:4]


def part(answer: Answer, start: int, end: int) -> bytes:
    return b"".join(answer.pieces(start, end))


def test_any_part_equals_the_bytes_of_the_whole(ground: Make) -> None:
    made = ground()
    answer = made.extract(planned(made))
    whole = part(answer, 0, answer.size)
    assert len(whole) == answer.size
    source = random.Random(5)
    for _ in range(300):
        start = source.randrange(answer.size)
        end = min(answer.size, start + source.choice((1, 7, 600, 20_000)))
        assert part(answer, start, end) == whole[start:end]


def test_heads_of_files_with_masks_are_kept(
    ground: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mastaba_coverage.answer._FEW", 10)
    made = ground()
    heads = HeadCache(tmp_path / "heads")
    answers = [Answer(planned(made), CoverageLimits(), heads=heads) for _ in range(2)]
    assert len(list((tmp_path / "heads").iterdir())) == 1
    assert answers[0].version == answers[1].version
    whole = [part(one, 0, one.size) for one in answers]
    assert whole[0] == whole[1]


@pytest.mark.parametrize("is_tiled", [True, False])
def test_windows_have_masks(is_tiled: bool, ground: Make, tmp_path: Path) -> None:
    made = ground()
    cells = Cells(331, 900, 205, 1201)
    tiff = TiffOptions("none", is_tiled=is_tiled, mask=True)
    coverage = made.coverage
    plan = CoveragePlan.exact(coverage, coverage.finest, cells, coverage.fields, tiff)
    answer = made.extract(replace(plan, has_mask=True))
    path = written(answer, tmp_path / "window.tif")
    assert np.array_equal(read_mask(path), made.valid("3", cells))
    whole = path.read_bytes()
    assert part(answer, 12_345, 67_890) == whole[12_345:67_890]


def test_computed_overviews_have_masks(ground: Make, tmp_path: Path) -> None:
    """A cell of which more than half has data has data; one without any has none."""
    made = ground()
    cells = Cells(331, 1531, 205, 1205)
    tiff = TiffOptions("none", is_exact=True, mask=True)
    plan = CoveragePlan.cog(made.coverage, cells, made.coverage.fields, tiff)
    assert plan.images[1].sampling is not None
    path = written(made.extract(replace(plan, has_mask=True)), tmp_path / "exact.tif")
    found = read_mask(path, 0)
    # Its cells are half a cell beside those of the level of their size.
    stored = made.valid("2", Cells(165, 766, 102, 603)).astype(int)
    counts = stored[:-1, :-1] + stored[1:, :-1] + stored[:-1, 1:] + stored[1:, 1:]
    assert found[counts > 2].all()
    assert not found[counts == 0].any()
    assert cog_validate(path, strict=True) == (True, [], [])


def test_without_the_option_nothing_changes(ground: Make, tmp_path: Path) -> None:
    made, plain = ground(), Ground(tmp_path)
    plans = [one.whole() for one in (made, plain)]
    files = [
        part(one.extract(plan), 0, one.extract(plan).size)
        for one, plan in zip((made, plain), plans, strict=True)
    ]
    # The generation of the pyramid is in the file.
    assert len(files[0]) == len(files[1])
    assert b"MASK_INTERLEAVED" not in files[0][:300]
    plain.close()


def test_etags_change_with_the_masks(tmp_path: Path) -> None:
    made = MaskedGround(tmp_path)
    plan = planned(made)
    masked, plain = made.extract(plan), made.extract(replace(plan, has_mask=False))
    assert masked.version != plain.version
    made.write_masks(seed=1)
    with pytest.raises(ObjectChangedError):
        part(masked, 0, masked.size)
    changed = made.extract(plan)
    assert changed.version not in (masked.version, plain.version)
    assert made.extract(replace(plan, has_mask=False)).version == plain.version
    assert len(part(changed, 0, changed.size)) == changed.size
    made.close()


def test_masks_count_in_all_limits(ground: Make) -> None:
    made = ground()
    plan = planned(made)
    plain = replace(plan, has_mask=False)
    tiles = 22 * 20 + 11 * 10 + 6 * 5
    for limit, least in (("tiles", tiles), ("stream_bytes", made.extract(plain).size)):
        extract(plain, CoverageLimits(**{limit: least}))
        with pytest.raises(CoverageTooLargeError):
            extract(plan, CoverageLimits(**{limit: least}))
    least = next(n for n in range(1, 100) if _fits(plain, n))
    assert not _fits(plan, least)
    assert _fits(plan, 2 * least)


def test_parts_are_small_enough_with_their_masks(ground: Make, tmp_path: Path) -> None:
    coverage, plain = ground().coverage, Ground(tmp_path)
    window = coverage.finest.window
    for values in ({"tiles": 100}, {"stream_bytes": 1_600_000}, {"indices": 5}):
        limits = CoverageLimits(**values)
        side = TILE * side_of_parts(coverage, limits)
        assert 0 < side < TILE * side_of_parts(plain.coverage, limits), values
        for top in range(0, window.bottom, side):
            for left in range(0, window.right, side):
                part = Cells(top, top + side, left, left + side).intersection(window)
                if part is not None:
                    plan = CoveragePlan.cog(coverage, part, coverage.fields, most=16)
                    extract(replace(plan, has_mask=True), limits)
    plain.close()


def _fits(plan: CoveragePlan, indices: int) -> bool:
    try:
        extract(plan, CoverageLimits(indices=indices))
    except CoverageTooLargeError:
        return False
    return True


@pytest.mark.parametrize(
    ("name", "channels", "tiff", "is_cog"),
    [
        ("TIFF_ZIP_FLOAT32", 1, TiffOptions("deflate", mask=True), False),
        ("TIFF_ZIP_FLOAT32", 1, TiffOptions("lzw", mask=True, is_tiled=False), False),
        ("TIFF_PNG_UINT8", 3, TiffOptions("deflate", mask=True, tile_width=128), True),
        ("TIFF_ZIP_FLOAT32", 1, TiffOptions(mask=True, is_exact=True), True),
        ("TIFF_JPG_UINT8", 3, TiffOptions("jpeg", mask=True, is_sparse=False), True),
    ],
    ids=["tiles", "strips", "other tiles", "exact", "jpeg"],
)
def test_files_that_are_compressed_have_masks(
    name: str, channels: int, tiff: TiffOptions, is_cog: bool, ground: Make, tmp_path: Path
) -> None:
    made = ground(name, channels)
    plan = planned(made, CoverageRequest(is_cog=is_cog, tiff=tiff))
    assert not plan.is_addressable
    path = tmp_path / "made.tif"
    path.write_bytes(b"".join(as_pieces(made_file(MadeStored(plan, CoverageLimits())))))
    assert np.array_equal(read_mask(path), made.valid("3", plan.cells))
    if is_cog:
        check(path)
    if "JPG" not in name:
        plain = tmp_path / "plain.tif"
        other = MadeStored(replace(plan, has_mask=False), CoverageLimits())
        plain.write_bytes(b"".join(as_pieces(made_file(other))))
        with rasterio.open(path) as one, rasterio.open(plain) as two:
            valid = np.broadcast_to(read_mask(path), (channels, *one.shape))
            assert one.read()[valid].tobytes() == two.read()[valid].tobytes()


def as_pieces(body: Any) -> Iterator[bytes]:
    if isinstance(body, bytes):
        yield body
        return
    yield from body
    body.close()


def test_etags_of_made_files_change_with_the_masks(tmp_path: Path) -> None:
    services: dict[str, Any] = {"ogcapi": {"coverages": True}}
    made = MaskedGround(tmp_path, services=services, coverages=True)
    client = Client(made.application)
    address = "/ogcapi/collections/ground/coverage?compression=deflate"
    plain, masked = client.head(address), client.head(f"{address}&mask=true")
    assert plain.headers["ETag"] != masked.headers["ETag"]
    made.write_masks(seed=1)
    client = Client(create_application(str(made.server_json)))
    for more, before, status in (("", plain, 304), ("&mask=true", masked, 200)):
        known = {"If-None-Match": before.headers["ETag"]}
        answer = client.get(f"{address}{more}", headers=known, buffered=True)
        assert answer.status_code == status
    made.close()


@pytest.mark.parametrize(
    "request_",
    [
        CoverageRequest(scaling=Scaling(factor=(0.3, 0.3)), tiff=TiffOptions(mask=True)),
        CoverageRequest(format="png", tiff=TiffOptions(mask=True)),
    ],
    ids=["resampled", "picture"],
)
def test_other_files_have_no_masks(request_: CoverageRequest, ground: Make) -> None:
    with pytest.raises(InvalidParameterError, match="only GeoTIFF") as found:
        planned(ground("TIFF_PNG_UINT8", 3), request_)
    assert found.value.parameter == "mask"


def not_halved(level: str, row: int, col: int) -> bytes | None:
    """Return a JPEG tile that files of stored tiles cannot have."""
    if level == "3" and not is_stored(row, col):
        return None
    stream = io.BytesIO()
    pixels = np.full((TILE, TILE, 3), 90, np.uint8)
    Image.fromarray(pixels).save(stream, "JPEG", subsampling="4:4:4")
    return stream.getvalue()


def test_a_file_whose_tiles_cannot_be_copied_has_its_masks(tmp_path: Path) -> None:
    services: dict[str, Any] = {"ogcapi": {"coverages": True}}
    made = MaskedGround(tmp_path, "TIFF_JPG_UINT8", 3, services=services, coverages=True)
    made.write(tile=not_halved)
    client = Client(made.application)
    address = "/ogcapi/collections/ground/coverage?mask=true&f=geotiff"
    path = tmp_path / "answer.tif"
    # Later requests know from the first one that tiles are of several kinds.
    for more in ("", "", "&compression=none"):
        answer = client.get(f"{address}{more}", buffered=True)
        assert answer.status_code == 200
        path.write_bytes(answer.data)
        assert np.array_equal(read_mask(path), made.valid("3", made.coverage.finest.window))
    made.close()


@pytest.mark.parametrize("columns", range(1, 26, 6))
def test_strips_of_few_bytes(ground: Make, columns: int, tmp_path: Path) -> None:
    """A strip of a mask may be shorter than what is repeated behind it."""
    made = ground()
    cells = Cells(500, 501, 300, 300 + columns)
    tiff = TiffOptions("none", is_tiled=False, mask=True)
    plan = CoveragePlan.exact(
        made.coverage, made.coverage.finest, cells, made.coverage.fields, tiff
    )
    answer = made.extract(replace(plan, has_mask=True))
    path = written(answer, tmp_path / "strip.tif")
    assert path.stat().st_size == answer.size
    assert np.array_equal(read_mask(path), made.valid("3", cells))


def test_a_layer_without_masks_refuses_the_option(tmp_path: Path) -> None:
    services = {"ogcapi": {"coverages": True}}
    made = Ground(tmp_path / "plain", services=services, coverages=True)
    client = Client(made.application)
    answer = client.get("/ogcapi/collections/ground/coverage?mask=true")
    assert (answer.status_code, answer.json["type"]) == (400, "InvalidParameter")
    assert "no stored masks" in answer.json["detail"]
    assert client.get("/ogcapi/collections/ground/coverage?mask=maybe").status_code == 400
    assert client.get("/ogcapi/collections/ground/coverage?mask=false").status_code == 200
    made.close()


def test_coverages_are_sent_with_masks(tmp_path: Path) -> None:
    services: dict[str, Any] = {"ogcapi": {"coverages": True}, "wcs": {}}
    made = MaskedGround(tmp_path, services=services, coverages=True, wcs={"enabled": True})
    client = Client(made.application)
    address = "/ogcapi/collections/ground/coverage?mask=true"
    whole = client.get(address)
    assert whole.status_code == 200
    path = tmp_path / "answer.tif"
    path.write_bytes(whole.data)
    plan = planned(made)
    assert np.array_equal(read_mask(path), made.valid("3", plan.cells))
    ranged = client.get(address, headers={"Range": "bytes=1000-300000"})
    assert ranged.status_code == 206
    assert ranged.data == whole.data[1000:300_001]
    assert ranged.headers["ETag"] == whole.headers["ETag"]
    wcs = "/wcs?service=WCS&version=2.0.1&request=GetCoverage&coverageId=ground&geotiff:mask=true"
    path.write_bytes(client.get(f"{wcs}&geotiff:compression=None").data)
    assert np.array_equal(read_mask(path), made.valid("3", made.coverage.finest.window))
    path.write_bytes(client.get(f"{wcs}&geotiff:compression=Deflate", buffered=True).data)
    assert np.array_equal(read_mask(path), made.valid("3", made.coverage.finest.window))
    refused = client.get(f"{wcs}&scaleFactor=0.3")
    assert (refused.status_code, "geotiff:mask" in refused.text) == (400, True)
    made.close()


def test_masks_in_object_stores(bucket: Bucket, tmp_path: Path) -> None:
    made = MaskedGround(tmp_path / "files")
    path = tmp_path / "files/pyramids/ground.json"
    described = json.loads(path.read_text())
    for level in described["levels"]:
        folders = level["storage"]
        place = {"type": "BUCKET", "shelf_name": "ours"}
        for kind in ("image", "mask"):
            place[f"{kind}_prefix"] = f"ground/{kind.upper()}_{level['id']}"
            folder = path.parent / folders[f"{kind}_directory"]
            for slab in folder.rglob("*.tif"):
                column, row = slab_index(slab.relative_to(folder))
                bucket.write(f"{place[f'{kind}_prefix']}_{column}_{row}", slab.read_bytes())
                slab.unlink()
        level["storage"] = place
    path.write_text(json.dumps(described))
    application = create_application(
        str(made.server_json), Plugins(extra={"bucket": BucketPlugin()})
    )
    layer = application.site.catalogue.layers["ground"]
    coverage = Coverage.of(layer, application.site.catalogue.readers["ground"])
    plan = Extractor(application.site, CoverageLimits()).plan(coverage, MASKED)
    assert isinstance(plan, CoveragePlan)
    answer = extract(plan, CoverageLimits())
    assert answer.version is not None
    path = written(answer, tmp_path / "masked.tif")
    check(path)
    assert np.array_equal(read_mask(path), made.valid("3", plan.cells))
    application.site.close_services()
    application.site.catalogue.storages.close()
    made.close()


def test_masks_of_other_formats_are_ignored(tmp_path: Path) -> None:
    made = MaskedGround(tmp_path)
    path = tmp_path / "pyramids/ground.json"
    described = json.loads(path.read_text())
    described["mask_format"] = "TIFF_RAW_UINT8"
    path.write_text(json.dumps(described))
    catalogue = create_application(str(made.server_json)).site.catalogue
    coverage = Coverage.of(catalogue.layers["ground"], catalogue.readers["ground"])
    assert coverage.finest.reader.masks is None
    made.close()


@pytest.mark.thorough
def test_masks_of_a_build_are_those_of_its_source(tmp_path: Path) -> None:
    valid = np.zeros((700, 900), np.bool_)
    valid[100:600, 200:800] = True
    valid[300:320, 400:450] = False
    # Also values that are nodata where there is no mask.
    values = np.random.default_rng(1).integers(240, 256, (3, 700, 900), np.uint8)
    place = rasterio.Affine(1, 0, 600_000, 0, -1, 6_800_000)
    profile = {"driver": "GTiff", "width": 900, "height": 700, "count": 3, "dtype": "uint8"}
    source = tmp_path / "source.tif"
    with (
        rasterio.Env(GDAL_TIFF_INTERNAL_MASK=True),
        rasterio.open(source, "w", crs="EPSG:2154", transform=place, **profile) as file,
    ):
        file.write(values)
        file.write_mask(valid)
    site = tmp_path / "site"
    command = [sys.executable, "-m", "mastaba", "build", source, "--name", "colours"]
    command += ["--output", site / "pyramids", "--server", site, "--tms", "native", "--masks"]
    command += ["--format", "TIFF_ZIP_UINT8", "--no-provenance"]
    done = subprocess.run(
        [str(item) for item in command], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    application = create_application(str(site / "server.json"))
    layer = application.site.catalogue.layers["colours"]
    coverage = Coverage.of(layer, application.site.catalogue.readers["colours"])
    plan = Extractor(application.site, CoverageLimits()).plan(coverage, MASKED)
    assert isinstance(plan, CoveragePlan)
    path = written(extract(plan, CoverageLimits()), tmp_path / "coverage.tif")
    check(path)
    with rasterio.open(path) as file:
        found = file.read()
        left, top = round(file.bounds.left - 600_000), round(6_800_000 - file.bounds.top)
    mask = read_mask(path)
    rows, columns = np.nonzero(mask)
    # The file begins at the corner of a tile, before or behind that of the source.
    assert np.array_equal(np.nonzero(valid), (rows + top, columns + left))
    assert np.array_equal(found[:, mask], values[:, valid])
    application.site.close_services()
