"""A bucket that does not answer, or too slowly, must not concern what is not in it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.hanging import Gate, Served
from tests.tiny import tiny_installation

from mastaba.errors import StorageUnavailableError
from mastaba_conformance.object_server import Faults, ObjectServer
from mastaba_storage.base import ByteRange
from mastaba_storage.environment import Environment
from mastaba_storage_s3.storage import S3Storage
from mastaba_writer.installation import layer_document
from mastaba_writer.pyramids import LevelPlan, object_pyramid
from mastaba_writer.tile_matrix_sets import web_mercator

TILE = "&STYLE=normal&FORMAT=image/png&TILEMATRIXSET=PM&TILEMATRIX=4&TILEROW=5&TILECOL=9"
WMS = "/wms?SERVICE=WMS&VERSION=1.3.0&STYLES=&CRS=EPSG:3857&BBOX=3000000,5500000,4000000,6500000"
REMOTE = {
    "wmts": f"/wmts?SERVICE=WMTS&VERSION=1.0.0&REQUEST=GetTile&LAYER=S{TILE}",
    "tms": "/tms/1.0.0/S/4/9/5.png",
    "ogcapi": "/ogcapi/collections/S/map/tiles/PM/4/5/9?f=png",
    "wms": f"{WMS}&REQUEST=GetMap&LAYERS=S&WIDTH=64&HEIGHT=64&FORMAT=image/png",
    "gfi": f"{WMS}&REQUEST=GetFeatureInfo&LAYERS=S&QUERY_LAYERS=S&WIDTH=64&HEIGHT=64&I=3&J=3"
    "&FORMAT=image/png&INFO_FORMAT=application/json",
}
LOCAL = (
    "/tms/1.0.0/RGB_JPG/3/4/2.jpg",
    "/tms/1.0.0/RGB_JPG/3/4/2.jpg?",
    "/wms?SERVICE=WMS&VERSION=1.3.0&REQUEST=GetMap&LAYERS=RGB_JPG&STYLES=&CRS=EPSG:3857"
    "&BBOX=0,0,1000000,1000000&WIDTH=64&HEIGHT=64&FORMAT=image/png",
)

Serve = Callable[..., Served]


@pytest.fixture
def serve(server: ObjectServer, tmp_path: Path) -> Iterator[Serve]:
    """Starts a server with nine layers in files, and one, S, in a bucket."""
    started: list[Served] = []

    def start(**variables: str) -> Served:
        descriptor, slabs = object_pyramid(
            "S",
            storage={"type": "S3", "bucket_name": "maps"},
            tile_matrix_set=web_mercator(),
            format="TIFF_PNG_UINT8",
            channels=1,
            levels=[LevelPlan("4", 4, 7, 8, 11)],
            tile=lambda level, row, col: np.full((256, 256, 1), 10 * row + col, np.uint8),
        )
        for key, data in slabs:
            server.put("maps", key, data)
        server.put("maps", "S.json", json.dumps(dict(descriptor)).encode())
        server_json = tiny_installation(
            tmp_path / "i",
            services_overrides={"wms": {"enabled": True}},
        )
        document = layer_document(tmp_path / "i/pyramids/GREY_PNG.json")
        pyramid = {"path": "s3://maps/S.json", "bottom_level": "4", "top_level": "4"}
        fields = {
            **document,
            "pyramids": [pyramid],
            "get_feature_info": {"type": "PYRAMID"},
        }
        layer = tmp_path / "i/layers/S.json"
        layer.write_text(json.dumps(fields), "utf-8")
        with (tmp_path / "i/layers.txt").open("a") as file:
            file.write(f"{layer}\n")
        given = {"S3_URL": server.url, "S3_KEY": "key", "S3_SECRETKEY": "secret", **variables}
        environment = {f"MASTABA_{name}": text for name, text in given.items()}
        started.append(Served(server_json, environment, "serves 10 layers"))
        return started[-1]

    yield start
    server.gate = None
    for each in started:
        each.close()


@pytest.mark.sampled(one_in=2)
@pytest.mark.parametrize("is_cached", [False, True], ids=["new", "cached"])
def test_the_rest_is_served_while_a_bucket_hangs(
    server: ObjectServer, serve: Serve, is_cached: bool
) -> None:
    served = serve(
        OBJECT_READ_TIMEOUT="0", NETWORK_TIMEOUT="0", OBJECT_READS="5" if is_cached else "40"
    )
    if is_cached:
        assert served.ask(REMOTE["wmts"]).status == 200
    server.gate = gate = Gate()
    pending = []
    for number, address in enumerate(REMOTE.values(), 1):
        answer = served.start(address)
        # Without the index, all others wait for the one that reads it.
        reads = number if is_cached else 1
        served.wait_until(lambda reads=reads: gate.arrived == reads)  # type: ignore[misc]
        pending.append(answer)
    assert served.report("/live") == {"status": "OK"}
    assert served.report("/ready")["status"] == "OK"
    for address in LOCAL:
        assert served.ask(address).status == 200, address
    if is_cached:
        # No more requests wait than allowed, in each protocol.
        for address in REMOTE.values():
            assert served.ask(address).status == 503, address
        assert served.report("/live") == {"status": "OK"}
        assert gate.arrived == len(REMOTE)
    assert [answer.result() for answer in pending if answer.done()] == []
    gate.set()
    assert [answer.result().status for answer in pending] == [200] * len(REMOTE)
    assert served.ask(REMOTE["wmts"]).status == 200


@pytest.mark.thorough
def test_requests_for_a_bucket_that_trickles_get_503(server: ObjectServer, serve: Serve) -> None:
    served = serve(
        OBJECT_READ_TIMEOUT="2",
        OBJECT_BREAKER_FAILURES=str(len(REMOTE)),
        OBJECT_BREAKER_PAUSE="3600",
    )
    assert served.ask(REMOTE["wmts"]).status == 200
    server.faults = Faults(trickles=1.0, trickle_time=0.1)
    pending = {name: served.start(address) for name, address in REMOTE.items()}
    assert {name: answer.result().status for name, answer in pending.items()} == dict.fromkeys(
        REMOTE, 503
    )
    report = served.report("/ready")
    assert report["reasons"] == ["a storage does not answer: s3"]
    assert served.ask(LOCAL[0]).status == 200


@pytest.mark.sampled(one_in=3)
@pytest.mark.parametrize("operation", ["range", "whole", "stat"])
def test_every_read_is_given_up(server: ObjectServer, operation: str) -> None:
    server.put("maps", "key", b"x" * 1000)
    variables = {
        "S3_URL": server.url,
        "S3_KEY": "key",
        "S3_SECRETKEY": "secret",
        "OBJECT_READ_TIMEOUT": "2",
    }
    environment = Environment({f"MASTABA_{name}": text for name, text in variables.items()})
    storage = S3Storage.open("maps", environment)
    server.faults = Faults(trickles=1.0, trickle_time=0.1)
    reads = {
        "range": lambda: storage.read("key", ByteRange(0, 1000)),
        "whole": lambda: storage.read("key"),
        "stat": lambda: storage.stat("key"),
    }
    with pytest.raises(StorageUnavailableError, match=r"no (response in time|answer within 2)"):
        reads[operation]()
    server.faults = Faults()
    reads[operation]()
    storage.close()
