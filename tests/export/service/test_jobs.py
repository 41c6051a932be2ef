"""Orders, their jobs and their results, as clients see them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
from pmtiles.reader import MemorySource, Reader
from tests.export.service.conftest import TILES, URL, Exports
from tests.support.pages import allows_its_style

from mastaba.api.access import GRANT, Grant, Principal
from mastaba_conformance.counting_storage import count_calls
from mastaba_coverage import TileCodec
from mastaba_export.jobs.worker import StoppedError
from mastaba_export.plan import plan
from mastaba_export.request import ExportRequest
from mastaba_export.verify import verify
from mastaba_server.messages import CLIENT

Open = Callable[..., Exports]

LAYER = {"layer": "RGB_PNG"}
OGC = "http://www.opengis.net/def/exceptions/ogcapi-processes-1/1.0"


def test_job_from_order_to_file(exports: Exports) -> None:
    response = exports.post(f"{TILES}/execution", LAYER, headers={"Prefer": "respond-async"})
    assert response.status_code == 201
    assert response.headers["Preference-Applied"] == "respond-async"
    location = response.headers["Location"]
    assert re.fullmatch(rf"{URL}/jobs/[0-9a-f]{{32}}", location)
    status = response.get_json()
    assert (status["status"], status["progress"], status["type"]) == ("accepted", 0, "process")
    assert status["inputs"] == {**LAYER, "format": "pmtiles"}
    assert status["estimate"]["tiles"] == 9
    path = location.removeprefix("http://maps.example")
    assert exports.client.get(path).get_json() == status
    early = exports.client.get(f"{path}/results")
    assert (early.status_code, early.get_json()["type"]) == (404, f"{OGC}/result-not-ready")

    assert exports.worker.run_one()
    assert not exports.worker.run_one()

    status = exports.client.get(path).get_json()
    assert (status["status"], status["progress"]) == ("successful", 100)
    assert status["created"] <= status["started"] <= status["finished"]
    (link,) = [item for item in status["links"] if item["rel"].endswith("/results")]
    assert link["href"] == f"{location}/results?f=json"
    result = exports.client.get(f"{path}/results").get_json()["result"]
    assert result["type"] == "application/vnd.pmtiles"
    file = exports.client.get(result["href"].removeprefix("http://maps.example"))
    assert file.status_code == 200
    assert len(file.data) == result["length"]
    assert abs(len(file.data) - status["estimate"]["bytes"]) <= 0.02 * len(file.data)
    assert 'filename="RGB_PNG.pmtiles"' in file.headers["Content-Disposition"]
    tile = Reader(MemorySource(file.data)).get(3, 5, 2)
    assert tile is not None
    assert tile.startswith(b"\x89PNG")


def test_file_is_addressable(exports: Exports) -> None:
    path = exports.file(exports.done(LAYER))
    whole = exports.client.get(path)
    etag = whole.headers["ETag"]
    assert not etag.startswith("W/")
    part = exports.client.get(path, headers={"Range": "bytes=100-299", "If-Range": etag})
    assert (part.status_code, part.data) == (206, whole.data[100:300])
    assert part.headers["Content-Range"] == f"bytes 100-299/{len(whole.data)}"
    other = exports.client.get(path, headers={"Range": "bytes=100-299", "If-Range": '"other"'})
    assert (other.status_code, other.data) == (200, whole.data)
    assert exports.client.get(path, headers={"If-None-Match": etag}).status_code == 304
    beyond = exports.client.get(path, headers={"Range": f"bytes={len(whole.data)}-"})
    assert beyond.status_code == 416
    assert beyond.headers["Content-Range"] == f"bytes */{len(whole.data)}"
    assert beyond.get_json()["title"]
    head = exports.client.head(path)
    assert head.headers["Content-Length"] == str(len(whole.data))


@pytest.mark.parametrize("change", ["removed", "replaced"])
def test_file_is_read_to_its_end(exports: Exports, change: str, tmp_path: Path) -> None:
    job = exports.done(LAYER)
    path = exports.file(job)
    expected = exports.client.get(path).data
    response = exports.client.get(path, buffered=False)
    stored = Path(exports.settings.directory, "jobs", job[-32:], "RGB_PNG.pmtiles")
    if change == "removed":
        assert exports.client.delete(job).status_code == 200
        assert not stored.parent.exists()
    else:
        (tmp_path / "other").write_bytes(b"x" * 5000)
        (tmp_path / "other").rename(stored)
    assert response.data == expected
    after = exports.client.get(path, headers={"Range": "bytes=0-9", "If-Range": "x"})
    assert after.status_code == (404 if change == "removed" else 200)
    if change == "replaced":
        assert after.headers["ETag"] != response.headers["ETag"]


def test_estimate_queues_nothing(exports: Exports) -> None:
    response = exports.post(f"{TILES}/estimate", LAYER)
    assert response.status_code == 200
    content = response.get_json()
    assert content["fits"] is True
    assert content["estimate"]["tiles"] == 9
    assert content["limits"]["tiles"] == 50_000_000
    assert exports.client.get("/export/jobs").get_json()["jobs"] == []
    assert not exports.worker.run_one()
    assert not Path(exports.settings.directory).joinpath("jobs").exists()


@pytest.mark.parametrize("name", ["execution", "estimate"])
def test_layer_without_the_switch_is_unknown(exports: Exports, name: str) -> None:
    answers = {}
    for layer in ("RGBA_PNG", "NO_LAYER"):
        # Other errors must not show that it exists either.
        for more in ({}, {"bbox": [0, 0, 1]}, {"style": "none"}, {"zoom": [99, 3]}):
            response = exports.post(f"{TILES}/{name}", {"layer": layer, **more})
            answers[layer, str(more)] = response.text.replace(layer, "LAYER")
            assert response.status_code == 400
    assert len(set(answers.values())) == 1, answers
    for path in ("/export/api", "/export/processes/export-tiles?f=html"):
        assert "RGBA_PNG" not in exports.client.get(path).text
    layers = exports.client.get(TILES).get_json()["inputs"]["layer"]["schema"]["enum"]
    assert "RGB_PNG" in layers
    assert "VECTOR" in layers


def test_vector_layers_have_no_coverage(exports: Exports) -> None:
    path = "/export/processes/export-coverage"
    layers = exports.client.get(path).get_json()["inputs"]["layer"]["schema"]["enum"]
    assert "FLOAT32_ZIP" in layers
    assert "VECTOR" not in layers
    response = exports.post(f"{path}/execution", {"layer": "VECTOR"})
    assert response.status_code == 400
    assert "no layer VECTOR" in response.get_json()["detail"]


def test_job_of_a_layer_that_is_withdrawn(open_exports: Open) -> None:
    exports = open_exports()
    job = exports.done(LAYER)
    path = exports.file(job)
    later = open_exports(export_directory=exports.settings.directory)
    assert later.client.get(path).status_code == 200
    service: Any = later.client.application.site.services["export"]  # type: ignore[union-attr]
    service._offered = dict.fromkeys(service._offered, frozenset({"GREY_PNG"}))
    for address in (job, f"{job}/results", path):
        assert later.client.get(address).status_code == 404
    assert later.client.get("/export/jobs").get_json()["jobs"] == []


@pytest.mark.parametrize(
    ("limit", "name"), [("max_bytes", "bytes"), ("max_tiles", "tiles"), ("max_pixels", "pixels")]
)
def test_too_large_job_is_refused(open_exports: Open, limit: str, name: str) -> None:
    exports = open_exports(limits={limit: 5})
    response = exports.post(f"{TILES}/execution", LAYER)
    content = response.get_json()
    assert response.status_code == 413
    assert (content["limit"], content[name] > 5) == (5, True)
    assert str(content[name]) in content["detail"]
    estimate = exports.post(f"{TILES}/estimate", LAYER).get_json()
    assert estimate["fits"] is False
    assert estimate["detail"] == content["detail"]
    assert exports.client.get("/export/jobs").get_json()["jobs"] == []


@pytest.mark.parametrize("name", ["execution", "estimate"])
@pytest.mark.parametrize(("limit", "unit"), [("max_tiles", "tiles"), ("max_pixels", "pixels")])
def test_raster_of_too_many_tiles_is_refused_before_indices_are_read(
    open_exports: Open, limit: str, unit: str, name: str
) -> None:
    """A server once held the places of all tiles of a layer to say that they are too many."""
    exports = open_exports(limits={limit: 1})
    counting = count_calls(exports.site.catalogue, "RGB_PNG")
    inputs = {**LAYER, "format": "cog"}
    response = exports.post(f"/export/processes/export-coverage/{name}", inputs)
    content = response.get_json()
    assert response.status_code == 413
    assert (content["limit"], content[unit] > 1) == (1, True)
    assert not counting.reads


class Waiting:
    """A client that waits, or hangs up after it was looked at some times."""

    def __init__(self, looks: int) -> None:
        self.looks, self.replaced = looks, 0

    def is_gone(self) -> bool:
        self.looks -= 1
        return self.looks < 0

    @contextmanager
    def aside(self) -> Iterator[None]:
        self.replaced += 1
        yield


@pytest.mark.parametrize("inputs", [LAYER, {"layer": "FLOAT32_ZIP", "tile_format": "png"}])
def test_estimates_hold_up_nobody_and_end_when_the_client_has_gone(
    exports: Exports, inputs: dict[str, str]
) -> None:
    """They may take minutes; a process without a sign of life for one is replaced."""
    stays, leaves = Waiting(10**6), Waiting(0)
    path = f"{TILES}/estimate"
    found = exports.post(path, inputs, environ_overrides={CLIENT: stays})
    assert found.status_code == 200, found.text
    assert stays.replaced >= 1
    assert exports.post(path, inputs, environ_overrides={CLIENT: leaves}).status_code == 499


def test_estimates_of_files_end_between_two_tiles_when_the_client_has_gone(
    exports: Exports, monkeypatch: pytest.MonkeyPatch
) -> None:
    encode, encoded = TileCodec.encode, 0
    client = Waiting(0)
    monkeypatch.setattr(client, "is_gone", lambda: encoded > 0)

    def noted(codec: TileCodec, pixels: Any) -> bytes:
        nonlocal encoded
        encoded += 1
        return encode(codec, pixels)

    monkeypatch.setattr(TileCodec, "encode", noted)
    path = "/export/processes/export-coverage/estimate"
    inputs = {"layer": "FLOAT32_ZIP", "format": "cog", "compression": "deflate"}
    response = exports.post(path, inputs, environ_overrides={CLIENT: client})
    assert (response.status_code, encoded) == (499, 1)


def test_pages_of_jobs_lead_to_the_oldest_one(open_exports: Open) -> None:
    """Also past jobs of layers that are no longer offered."""
    exports = open_exports()
    layers = ["GREY_PNG", "RGB_PNG", "RGB_PNG", "GREY_PNG", "RGB_PNG"]
    jobs = [exports.ordered({"layer": layer}).rpartition("/")[2] for layer in layers]
    service: Any = exports.client.application.site.services["export"]  # type: ignore[union-attr]
    service._offered = dict.fromkeys(service._offered, frozenset({"GREY_PNG"}))
    address, found, pages = "/export/jobs?limit=2", [], 0
    while address:
        content = exports.client.get(address.removeprefix("http://maps.example")).get_json()
        found += [job["jobID"] for job in content["jobs"]]
        links = {link["rel"]: link["href"] for link in content["links"]}
        address, pages = links.get("next", ""), pages + 1
    assert pages == 3
    assert sorted(found) == sorted([jobs[0], jobs[3]])


def test_full_directory_is_507(open_exports: Open) -> None:
    exports = open_exports(limits={"directory_bytes": 120_000})
    size = exports.post(f"{TILES}/estimate", LAYER).get_json()["estimate"]["bytes"]
    assert 60_000 < size < 120_000
    exports.done(LAYER)
    response = exports.post(f"{TILES}/execution", LAYER)
    assert response.status_code == 507, response.text
    assert int(response.headers["Retry-After"]) > 3600
    assert response.get_json()["limit"] == 120_000


def test_waiting_jobs_and_requests_are_limited(open_exports: Open) -> None:
    exports = open_exports(per_owner={"waiting": 1}, limits={"estimates": 3})
    exports.ordered(LAYER)
    response = exports.post(f"{TILES}/execution", LAYER)
    assert response.status_code == 429
    assert response.headers["Retry-After"] == "60"
    assert "1 waiting jobs" in response.get_json()["detail"]
    assert exports.post(f"{TILES}/estimate", LAYER).status_code == 200
    response = exports.post(f"{TILES}/estimate", LAYER)
    assert response.status_code == 429
    assert 0 < int(response.headers["Retry-After"]) <= 20
    # Another client is not affected.
    other = {"REMOTE_ADDR": "192.0.2.9"}
    assert exports.post(f"{TILES}/estimate", LAYER, environ_overrides=other).status_code == 200


def test_callers_see_their_own_jobs_only(open_exports: Open) -> None:
    exports = open_exports(owner_header="X-Owner", gateways=["10.0.0.1"])

    def jobs(address: str, name: str = "") -> list[str]:
        headers = {"X-Owner": name} if name else {}
        response = exports.client.get(
            "/export/jobs", headers=headers, environ_overrides={"REMOTE_ADDR": address}
        )
        return [item["jobID"] for item in response.get_json()["jobs"]]

    gateway = {"environ_overrides": {"REMOTE_ADDR": "10.0.0.1"}}
    alice = exports.ordered(LAYER, headers={"X-Owner": "alice"}, **gateway)
    assert jobs("10.0.0.1", "alice") == [alice[-32:]]
    assert jobs("10.0.0.1", "bob") == []
    assert jobs("10.0.0.1") == []
    # The header of a client that is not the gateway counts for nothing.
    assert jobs("192.0.2.1", "alice") == []
    # Who knows the identifier may read the status: a link can be given to others.
    assert exports.client.get(alice).status_code == 200


def test_job_of_a_principal_is_nobody_elses(open_exports: Open) -> None:
    exports = open_exports()

    def as_key(name: str) -> dict[str, Any]:
        return {"environ_overrides": {GRANT: Grant(Principal(name, "key"))}}

    path = exports.ordered(LAYER, **as_key("first"))
    assert exports.worker.run_one()
    file = exports.client.get(f"{path}/results", **as_key("first")).get_json()["result"]["href"]
    file = file.removeprefix("http://maps.example")
    assert exports.client.get(file, **as_key("first")).status_code == 200
    # Who knows the identifier, with the same address or another key, knows nothing.
    for others in ({}, as_key("second")):
        for address in (path, f"{path}/results", file):
            assert exports.client.get(address, **others).status_code == 404
        assert exports.client.delete(path, **others).status_code == 404
        assert exports.client.get("/export/jobs", **others).get_json()["jobs"] == []


def test_layer_of_which_a_part_is_seen_is_not_offered(open_exports: Open) -> None:
    site = open_exports().site
    catalogue = site.catalogue
    readers = dict(catalogue.readers)
    readers["RGB_PNG"] = {"2": readers["RGB_PNG"]["2"]}
    part = catalogue.filtered(catalogue.layers, readers, catalogue.settings, catalogue.services)
    view = replace(site, catalogue=part, main=site)
    service = view.open_service("export")
    # A worker would export all levels.
    assert service.downloads(catalogue.layers["RGB_PNG"]) == []
    assert service.downloads(catalogue.layers["RGB_JPG"])
    service.close()


def test_list_of_jobs_has_pages(open_exports: Open) -> None:
    exports = open_exports(per_owner={"waiting": 9})
    jobs = [exports.ordered(LAYER)[-32:] for _ in range(5)]
    first = exports.client.get("/export/jobs?limit=3").get_json()
    assert [item["jobID"] for item in first["jobs"]] == jobs[:1:-1]
    (following,) = [item["href"] for item in first["links"] if item["rel"] == "next"]
    second = exports.client.get(following.removeprefix("http://maps.example")).get_json()
    assert [item["jobID"] for item in second["jobs"]] == jobs[1::-1]
    assert not [item for item in second["links"] if item["rel"] == "next"]


def test_dismissal(exports: Exports) -> None:
    waiting = exports.ordered(LAYER)
    response = exports.client.delete(waiting)
    assert (response.status_code, response.get_json()["status"]) == (200, "dismissed")
    assert not exports.worker.run_one()
    for path in (waiting, f"{waiting}/results"):
        found = exports.client.get(path)
        assert found.status_code == (200 if path == waiting else 410)
    again = exports.client.delete(waiting)
    assert (again.status_code, again.get_json()["title"]) == (410, "The job has been dismissed")
    job = exports.done(LAYER)
    folder = Path(exports.settings.directory, "jobs", job[-32:])
    assert folder.is_dir()
    assert exports.client.delete(job).status_code == 200
    assert not folder.exists()
    assert exports.client.delete(f"/export/jobs/{'0' * 32}").status_code == 404


def test_expired_result_is_unknown(open_exports: Open) -> None:
    exports = open_exports(keep=1e-9)
    job = exports.ordered(LAYER)
    assert exports.worker.run_one()
    folder = Path(exports.settings.directory, "jobs", job[-32:])
    assert (folder / "RGB_PNG.pmtiles").exists()
    for path in (job, f"{job}/results", f"{job}/files/RGB_PNG.pmtiles"):
        assert exports.client.get(path).get_json()["type"] == f"{OGC}/no-such-job"
    assert exports.client.get("/export/jobs").get_json()["jobs"] == []
    # Any order removes what has expired.
    exports.ordered(LAYER)
    assert not folder.exists()


def test_failed_job_says_why(exports: Exports) -> None:
    job = exports.ordered(LAYER)
    claimed = exports.queue.claim("w")
    assert claimed is not None
    exports.queue.fail(claimed, "the disk of the results is full", 507)
    status = exports.client.get(job).get_json()
    assert (status["status"], status["message"]) == ("failed", "the disk of the results is full")
    results = exports.client.get(f"{job}/results")
    assert (results.status_code, results.get_json()["detail"]) == (507, status["message"])


@pytest.mark.parametrize(
    ("inputs", "box"),
    [
        ({"bbox": [0, 0, 30, 30]}, [0, 0, 30, 30]),
        ({"bbox": {"bbox": [0, 0, 30, 30]}}, [0, 0, 30, 30]),
        ({"bbox": {"value": [0, 0, 30, 30]}}, [0, 0, 30, 30]),
        ({"bbox": {"bbox": [0, 0, 9e5, 9e5], "crs": "EPSG:3857"}}, [0, 0, 9e5, 9e5]),
    ],
)
def test_forms_of_boxes(exports: Exports, inputs: dict[str, Any], box: list[float]) -> None:
    response = exports.post(f"{TILES}/estimate", {**LAYER, **inputs})
    assert response.status_code == 200, response.text
    assert response.get_json()["inputs"]["bbox"] == box
    assert 0 < response.get_json()["estimate"]["tiles"] < 9


def test_area_may_be_qualified(exports: Exports) -> None:
    ring = [[0, 0], [30, 0], [30, 30], [0, 0]]
    polygon = {"type": "Polygon", "coordinates": [ring]}
    plain = exports.post(f"{TILES}/estimate", {**LAYER, "area": polygon})
    value = {"value": polygon, "mediaType": "application/geo+json"}
    qualified = exports.post(f"{TILES}/estimate", {**LAYER, "area": value})
    assert plain.status_code == 200, plain.text
    assert plain.get_json() == qualified.get_json()


@pytest.mark.parametrize(
    ("body", "status", "word"),
    [
        (b"", 400, "not JSON"),
        (b"[1]", 400, "not a JSON object"),
        (b'{"inputs": 1}', 400, "inputs is not an object"),
        (b'{"inputs": {}}', 400, "layer is missing"),
        (b'{"inputs": {"layer": "RGB_PNG", "more": 1}}', 400, "no input more"),
        (b'{"inputs": {"layer": "RGB_PNG", "fit": "exact"}}', 400, "no input fit"),
        (b'{"inputs": {"layer": "RGB_PNG", "format": "tif"}}', 400, "pmtiles"),
        (b'{"inputs": {"layer": "RGB_PNG", "bbox": [0,0,NaN,1]}}', 400, "NaN"),
        (b'{"inputs": {"layer": "RGB_PNG", "bbox": [0,0,1e999,1]}}', 400, "too large"),
        (b'{"inputs": {"layer": "RGB_PNG", "area": {"href": "http://x/"}}}', 400, "other servers"),
        (b'{"inputs": {"layer": "RGB_PNG"}, "subscriber": {}}', 400, "subscribers"),
        (b'{"inputs": {"layer": "RGB_PNG"}, "response": "raw"}', 400, "document"),
        (b'{"inputs": {"layer": "RGB_PNG"}, "outputs": {"x": {}}}', 400, "result"),
        (b'{"inputs": {"layer": "RGB_PNG"}, "inputz": {}}', 400, "inputz"),
        (b"[" * 100_000, 400, "deeply"),
        (b'{"inputs": {"layer": "\\ud800"}}', 400, "surrogates"),
        (b'{"inputs": {"layer": "\xff"}}', 400, "not JSON"),
        (b" " * (1024 * 1024 + 1), 413, "1 MiB"),
    ],
)
def test_invalid_bodies(exports: Exports, body: bytes, status: int, word: str) -> None:
    response = exports.client.post(
        f"{TILES}/estimate", data=body, content_type="application/json; charset=utf-8"
    )
    assert response.status_code == status, response.text
    assert response.content_type == "application/problem+json"
    assert word in response.get_json()["detail"]


def test_pages_of_other_origins_cannot_order(exports: Exports) -> None:
    """Browsers send these types without asking."""
    for kind in ("text/plain", "application/x-www-form-urlencoded", ""):
        response = exports.client.post(
            f"{TILES}/execution", data=b'{"inputs": {"layer": "RGB_PNG"}}', content_type=kind
        )
        assert response.status_code == 415
    assert exports.client.get("/export/jobs").get_json()["jobs"] == []


def test_wrong_methods(exports: Exports) -> None:
    for method, path, allowed in (
        ("POST", "/export/jobs", "GET"),
        ("DELETE", "/export/processes", "GET"),
        ("GET", f"{TILES}/execution", "POST"),
        ("POST", f"/export/jobs/{'0' * 32}", "GET, DELETE"),
    ):
        response = exports.client.open(path, method=method)
        assert (response.status_code, response.headers["Allow"]) == (405, allowed)


def test_unusable_queue_is_503(exports: Exports) -> None:
    Path(exports.settings.directory).mkdir()
    Path(exports.settings.directory, "queue.sqlite").write_bytes(b"garbage" * 200)
    for response in (
        exports.client.get("/export/jobs"),
        exports.post(f"{TILES}/execution", LAYER),
    ):
        assert response.status_code == 503
        assert exports.settings.directory not in response.text
    assert exports.client.get("/export").status_code == 200


def test_pages(exports: Exports) -> None:
    job = exports.done(LAYER)
    waiting = exports.ordered(LAYER)
    texts = {}
    for path in (
        *("/export", "/export/conformance", "/export/api", "/export/processes", TILES),
        *("/export/jobs", job, f"{job}/results", waiting),
    ):
        response = exports.client.get(path, headers={"Accept": "text/html"})
        assert response.content_type == "text/html; charset=utf-8", path
        policy = response.headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert allows_its_style(response.text, policy), path
        texts[path] = response.text
    assert "RGB_PNG.pmtiles" in texts[f"{job}/results"]
    assert 'http-equiv="refresh"' in texts[waiting]
    assert 'http-equiv="refresh"' not in texts[job]
    assert "/export/processes/export-tiles/execution" in texts[TILES]


def test_gauges(exports: Exports) -> None:
    exports.done(LAYER)
    exports.ordered(LAYER)
    service: Any = exports.client.application.site.services["export"]  # type: ignore[union-attr]
    gauges = service.gauges()
    assert gauges["jobs"]["accepted"] == gauges["jobs"]["successful"] == 1
    assert gauges["jobs"]["failed"] == 0
    assert gauges["bytes"]["successful"] > 30_000


@pytest.mark.parametrize("format", ["dir", "pyramid"])
def test_many_files_are_one_zip_file(exports: Exports, tmp_path: Path, format: str) -> None:
    job = exports.done({"layer": "RGB_PNG", "format": format})
    assert exports.file(job).endswith("/files/RGB_PNG.zip")
    answer = exports.client.get(exports.file(job))
    assert answer.mimetype == "application/zip"
    folder = Path(exports.settings.directory, "jobs", job[-32:])
    assert {one.name for one in folder.iterdir()} == {"lock", "RGB_PNG.zip"}
    with ZipFile(BytesIO(answer.data)) as archive:
        assert archive.testzip() is None
        for name in archive.namelist():
            assert str(tmp_path).encode() not in archive.read(name)
        archive.extractall(tmp_path / "out")
    name = "RGB_PNG" if format == "dir" else "RGB_PNG.json"
    request = ExportRequest("RGB_PNG", format=format)
    assert verify(plan(request, exports.site), tmp_path / "out" / name, deep=True).tiles > 0


def test_packing_is_stopped_and_begun_again(exports: Exports) -> None:
    job = exports.ordered({"layer": "RGB_PNG", "format": "dir"})
    claimed = exports.queue.claim("w")
    assert claimed is not None
    folder = Path(exports.settings.directory, "jobs", job[-32:])
    folder.mkdir(parents=True)

    def stop(_written: int, share: float) -> None:
        if share == 1.0:
            raise StoppedError("the worker is stopped")

    with pytest.raises(StoppedError):
        exports.worker._perform(claimed, str(folder), stop)
    assert not (folder / "RGB_PNG.zip").exists()
    (file,) = exports.worker._perform(claimed, str(folder), lambda *_: None)
    assert file.size == (folder / "RGB_PNG.zip").stat().st_size
    assert {one.name for one in folder.iterdir()} == {"RGB_PNG.zip"}
