"""A configuration with parts in buckets and parts in files."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from mastaba.config.server import load_server
from mastaba.errors import SlabFormatError, StorageError
from mastaba.plugins.manager import Plugins
from mastaba.services.base import Site
from mastaba.site.loading import open_site
from mastaba_conformance.object_server import ObjectServer
from mastaba_documents.faults import Faults
from mastaba_server.processes.scoreboard import Scoreboard
from mastaba_storage.environment import Environment
from mastaba_writer.installation import NORMAL_STYLE, write_installation
from mastaba_writer.pyramids import LevelPlan, object_pyramid, write_pyramid
from mastaba_writer.tile_matrix_sets import web_mercator

LEVELS = [LevelPlan("4", 4, 7, 8, 11)]
Open = Callable[..., tuple[Site, str]]


def tile(level: str, row: int, col: int) -> bytes:
    return f"tile {level}/{row}/{col}".encode()


def layer(path: str) -> dict[str, Any]:
    pyramid = {"path": path, "bottom_level": "4", "top_level": "4"}
    return {"title": "t", "abstract": "a", "pyramids": [pyramid]}


def put_json(server: ObjectServer, key: str, document: Mapping[str, Any]) -> None:
    server.put("maps", key, json.dumps(dict(document)).encode())


def put_pyramid(server: ObjectServer, name: str, **storage: str) -> dict[str, Any]:
    descriptor, slabs = object_pyramid(
        name,
        storage={"type": "S3", "bucket_name": "maps", **storage},
        tile_matrix_set=web_mercator(),
        format="TIFF_RAW_UINT8",
        channels=1,
        levels=LEVELS,
        tile=tile,
    )
    for key, data in slabs:
        server.put("maps", key, data)
    put_json(server, f"{name}.json", descriptor)
    return descriptor


@pytest.fixture
def open_server_json(server: ObjectServer) -> Open:
    """Opens a server.json; returns the site and all problems as one text."""

    def open_with_variables(server_json: Path, **variables: str) -> tuple[Site, str]:
        given = {"S3_URL": server.url, "S3_KEY": "key", "S3_SECRETKEY": "secret", **variables}
        environment = Environment({f"MASTABA_{name}": text for name, text in given.items()})
        plugins, faults = Plugins(), Faults()
        config = load_server(str(server_json), plugins, faults)
        site = open_site(config, plugins, Scoreboard(1, 1), faults, environment)
        return site, "\n".join(map(str, faults.all))

    return open_with_variables


def read(site: Site, name: str, row: int = 5, col: int = 9) -> bytes:
    located = site.catalogue.readers[name]["4"].locate(row, col)
    assert located is not None
    return located.read()


def test_the_whole_configuration_may_be_in_a_bucket(
    server: ObjectServer, tmp_path: Path, open_server_json: Open
) -> None:
    put_pyramid(server, "P")
    put_json(server, "layers/L.json", layer("s3://maps/P.json"))
    put_json(server, "tms/PM.json", web_mercator())
    put_json(server, "styles/normal.json", NORMAL_STYLE)
    server.put("maps", "layers.txt", b"# all layers\ns3://maps/layers/L.json\n")
    places = {
        "layers": "s3://maps/layers.txt",
        "styles": "s3://maps/styles/",
        "tile_matrix_sets": "s3://maps/tms",
    }
    server_json = write_installation(
        tmp_path, layers={}, services=[], server_overrides={"configurations": places}
    )
    site, faults = open_server_json(server_json)
    assert faults == ""
    assert read(site, "L") == b"tile 4/5/9"
    assert [style.identifier for style in site.catalogue.layers["L"].styles] == ["normal"]


def test_buckets_and_files_can_be_combined(
    server: ObjectServer, tmp_path: Path, open_server_json: Open
) -> None:
    put_pyramid(server, "P")
    put_json(server, "InBucket.json", layer("s3://maps/P.json"))
    in_file = write_pyramid(
        tmp_path / "pyramids",
        "F",
        tile_matrix_set=web_mercator(),
        format="TIFF_RAW_UINT8",
        channels=1,
        levels=LEVELS,
        tile=lambda level, row, col: b"file " + tile(level, row, col),
    )
    server_json = write_installation(
        tmp_path, layers={"OnFile": layer("s3://maps/P.json"), "F": in_file}, services=[]
    )
    with (tmp_path / "layers.txt").open("a") as file:
        file.write("s3://maps/InBucket.json\n")
    site, faults = open_server_json(server_json)
    assert faults == ""
    assert sorted(site.catalogue.layers) == ["F", "InBucket", "OnFile"]
    assert read(site, "InBucket") == read(site, "OnFile") == b"tile 4/5/9"
    assert read(site, "F") == b"file tile 4/5/9"
    assert site.catalogue.storages.counts() == {"s3": 1, "file": 1}
    # One index cache per pyramid, however many layers use it: one index read, two tile reads.
    assert server.count("GET", "/maps/P/DATA_4_4_2") == 3


def test_layers_that_cannot_be_read_are_left_out_and_the_others_served(
    server: ObjectServer, tmp_path: Path, open_server_json: Open
) -> None:
    good = put_pyramid(server, "P")
    put_pyramid(server, "Elsewhere", bucket_name="maps@nowhere.example")
    put_pyramid(server, "NoName", bucket_name="")
    server.put("maps", "Empty.json", b"")
    server.put("maps", "Broken.json", b'{"levels": [')
    (tmp_path / "OnDisk.json").write_text(json.dumps(good))
    layers = {
        "Good": layer("s3://maps/P.json"),
        "Absent": layer("s3://maps/Absent.json"),
        "NoBucket": layer("s3://no-such-bucket/P.json"),
        "UnknownCluster": layer("s3://maps@nowhere.example/P.json"),
        "LevelsElsewhere": layer("s3://maps/Elsewhere.json"),
        "LevelsNowhere": layer("s3://maps/NoName.json"),
        "Empty": layer("s3://maps/Empty.json"),
        "Broken": layer("s3://maps/Broken.json"),
        "OnDisk": layer(str(tmp_path / "OnDisk.json")),
        "NoDriver": layer("gopher://maps/P.json"),
    }
    site, faults = open_server_json(write_installation(tmp_path, layers=layers, services=[]))
    assert list(site.catalogue.layers) == ["Good"]
    assert read(site, "Good") == b"tile 4/5/9"
    for expected in (
        "s3://maps/Absent.json: $: does not exist",
        "s3://no-such-bucket/P.json: $: does not exist",
        "the cluster 'nowhere.example' of 'maps@nowhere.example' is not in MASTABA_S3_URL",
        "s3://maps/Elsewhere.json: $.levels[0].storage: the cluster 'nowhere.example'",
        "s3://maps/Empty.json: $: is empty",
        "s3://maps/Broken.json: $: is not valid JSON",
        "move the descriptor to S3, or write maps@cluster",
        "no storage driver 'gopher' is installed",
    ):
        assert expected in faults
    assert "secret" not in faults


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"S3_KEY": ""}, "the variable MASTABA_S3_KEY is not set"),
        ({"S3_SECRETKEY": ""}, "the variable MASTABA_S3_SECRETKEY is not set"),
        ({"S3_SECRETKEY": "wrong-one"}, "403 SignatureDoesNotMatch"),
        ({"S3_KEY": "key,key"}, "have 1, 2 and 1 elements"),
        ({"S3_URL": "http://127.0.0.1:1"}, "http://127.0.0.1:1 does not answer"),
    ],
)
def test_an_unreachable_store_affects_only_its_own_layers(
    server: ObjectServer,
    tmp_path: Path,
    open_server_json: Open,
    variables: dict[str, str],
    expected: str,
) -> None:
    put_pyramid(server, "P")
    in_file = write_pyramid(
        tmp_path / "pyramids",
        "F",
        tile_matrix_set=web_mercator(),
        format="TIFF_RAW_UINT8",
        channels=1,
        levels=LEVELS,
        tile=tile,
    )
    server_json = write_installation(
        tmp_path, layers={"InBucket": layer("s3://maps/P.json"), "F": in_file}, services=[]
    )
    site, faults = open_server_json(server_json, **variables)
    assert list(site.catalogue.layers) == ["F"]
    assert read(site, "F") == b"tile 4/5/9"
    assert expected in faults
    assert "wrong-one" not in faults


def test_symbolic_objects_are_resolved_once(
    server: ObjectServer, tmp_path: Path, open_server_json: Open
) -> None:
    put_pyramid(server, "P")
    put_pyramid(server, "Links")
    for col, row in ((4, 2), (4, 3), (5, 2), (5, 3)):
        target = f"SYMLINK#maps/P/DATA_4_{col}_{row}"
        server.put("maps", f"Links/DATA_4_{col}_{row}", target.encode())
    server_json = write_installation(
        tmp_path, layers={"L": layer("s3://maps/Links.json")}, services=[]
    )
    site, _ = open_server_json(server_json)
    server.requests.clear()
    assert read(site, "L") == b"tile 4/5/9"
    assert [request.path for request in server.requests] == [
        "/maps/Links/DATA_4_4_2",
        "/maps/P/DATA_4_4_2",
        "/maps/P/DATA_4_4_2",
    ]
    server.requests.clear()
    assert read(site, "L", 4, 8) == b"tile 4/4/8"
    assert [request.path for request in server.requests] == ["/maps/P/DATA_4_4_2"]


def test_symbolic_object_with_an_unusable_target_is_reported(
    server: ObjectServer, tmp_path: Path, open_server_json: Open
) -> None:
    put_pyramid(server, "P")
    server_json = write_installation(tmp_path, layers={"L": layer("s3://maps/P.json")}, services=[])
    site, _ = open_server_json(server_json)
    for target, kind, message in (
        ("maps@nowhere.example/P/DATA_4_4_2", StorageError, "'nowhere.example'.*MASTABA_S3_URL"),
        ("no-such-bucket/P/DATA_4_4_2", SlabFormatError, "which does not exist"),
        ("maps/P/../P/DATA_4_4_3", SlabFormatError, "which does not exist"),
    ):
        server.put("maps", "P/DATA_4_4_2", f"SYMLINK#{target}".encode())
        with pytest.raises(kind, match=f"P/DATA_4_4_2 points to .*{message}"):
            read(site, "L")
    assert read(site, "L", 4, 11) == b"tile 4/4/11"
