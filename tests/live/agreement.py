"""Nodes that follow one configuration, and clients that compare all their answers."""

from __future__ import annotations

import http.client
import json
import os
import threading
import time
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from tests.live.processes import PATIENCE, Mastaba, changed, free_port, wait_until

from mastaba_writer.installation import write_installation
from mastaba_writer.pyramids import LevelPlan, object_pyramid, write_pyramid
from mastaba_writer.tile_matrix_sets import web_mercator

PATH = "/tms/1.0.0/L/6/32/16.pbf"
LAYER = "L"
_LEVELS = [LevelPlan("6", 16, 17, 32, 33)]
_PYRAMID: dict[str, Any] = {
    "tile_matrix_set": web_mercator(),
    "tile_matrix_set_id": "PM",
    "format": "TIFF_PBF_MVT",
    "levels": _LEVELS,
}


class Answer(NamedTuple):
    """What a client sees of a tile."""

    status: int
    configuration: str
    pyramid: str
    etag: str
    body: bytes


class Published(ABC):
    """A place with a layer list, a layer and a pyramid that has a new version now and then."""

    @property
    @abstractmethod
    def base(self) -> str:
        """Start of all paths."""

    @abstractmethod
    def put(self, name: str, data: bytes) -> None:
        """Write or replace a document at once."""

    @abstractmethod
    def put_pyramid(self, name: str, content: bytes) -> Mapping[str, Any]:
        """Write slabs whose tiles have a content; return their descriptor."""

    def put_layer(self, name: str, **changes: Any) -> None:
        pyramid = {"path": f"{self.base}P.json", "bottom_level": "6", "top_level": "6"}
        document = {"title": name, "abstract": "", "pyramids": [pyramid], **changes}
        self.put(f"{name}.json", json.dumps(document).encode())

    def put_list(self, *layers: str) -> None:
        self.put("layers.txt", "".join(f"{self.base}{name}.json\n" for name in layers).encode())

    def publish(self, number: int) -> bytes:
        """Publish a version as builders do: the descriptor last; return the content of tiles."""
        content = b"version %d" % number
        document = self.put_pyramid(f"P_{number}", content)
        self.put("P.json", json.dumps(document).encode())
        return content


class Directory(Published):
    """A directory that several machines mount."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @property
    def base(self) -> str:
        return f"{self._folder}/"

    def put(self, name: str, data: bytes) -> None:
        temporary = self._folder / f"{name}.new"
        temporary.write_bytes(data)
        os.replace(temporary, self._folder / name)

    def put_pyramid(self, name: str, content: bytes) -> Mapping[str, Any]:
        file = write_pyramid(self._folder, name, tile=lambda *_: content, **_PYRAMID)
        document: dict[str, Any] = json.loads(file.read_text())
        return document


class Bucket(Published):
    """A bucket of an S3 store."""

    def __init__(self, writer: Any) -> None:
        self._writer = writer

    @property
    def base(self) -> str:
        return f"s3://{self._writer.bucket}/"

    def put(self, name: str, data: bytes) -> None:
        self._writer.put(name, data)

    def put_pyramid(self, name: str, content: bytes) -> Mapping[str, Any]:
        storage = {"type": "S3", "bucket_name": self._writer.bucket}
        document, slabs = object_pyramid(name, storage=storage, tile=lambda *_: content, **_PYRAMID)
        for key, data in slabs:
            self.put(key, data)
        return document


class Node:
    """A server that follows what is published."""

    def __init__(self, folder: Path, place: Published, **server: Any) -> None:
        folder.mkdir()
        self.port = free_port()
        server_json = write_installation(
            folder,
            layers={},
            services=["tms", "health"],
            services_overrides={"global": {"generation_headers": True}},
        )
        document = json.loads(server_json.read_text())
        document["configurations"]["layers"] = f"{place.base}layers.txt"
        server_json.write_text(json.dumps(document))
        settings = {"follow": {"period": 0.2}, "logger": {"level": "info", "access": "off"}}
        copy = changed(server_json, folder / "node.json", **{**settings, **server})
        # One node has another order of sets than the others.
        self.server = Mastaba(copy, folder, http=self.port, is_new=folder.name == "node-0")

    def ask(self, path: str = PATH) -> tuple[int, Mapping[str, str], bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read()
        finally:
            connection.close()

    def readiness(self) -> tuple[int, Mapping[str, Any]]:
        status, _, body = self.ask("/healthcheck/ready")
        return status, json.loads(body)

    def await_content(self, content: bytes) -> None:
        wait_until(lambda: self.ask()[2] == content)

    def await_reason(self, *reasons: str) -> None:
        """Wait until the node is not ready for these reasons, or ready without any."""
        expected = (503 if reasons else 200), list(reasons)

        def is_so() -> bool:
            status, report = self.readiness()
            return (status, report["reasons"]) == expected

        wait_until(is_so)


class Clients:
    """Clients of each node that always ask for the same tile; one keeps its connection.

    Attributes:
        failures: requests without an answer, and answers that are older than one before.
    """

    def __init__(self, nodes: list[Node]) -> None:
        self.answers: set[Answer] = set()
        self.failures: list[str] = []
        self.count = 0
        self._stop = threading.Event()
        self._latest = dict.fromkeys(nodes, 0)
        self._lock = threading.Lock()
        self._threads = [
            threading.Thread(target=self._ask, args=(node, keep))
            for node in nodes
            for keep in (True, False)
        ]

    def _ask(self, node: Node, keep: bool) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", node.port, timeout=PATIENCE)
        while not self._stop.wait(0.002):
            latest = self._latest[node]
            try:
                connection.request("GET", PATH)
                answer = connection.getresponse()
                names = ("Mastaba-Generation", "Mastaba-Pyramid", "ETag")
                headers = [answer.headers[name] for name in names]
                body = answer.read()
                with self._lock:
                    self.answers.add(Answer(answer.status, *headers, body))
                    self.count += 1
                    version = int(body.split()[-1]) if answer.status == 200 else latest
                    self._latest[node] = max(self._latest[node], version)
                if version < latest:
                    self.failures.append(f"version {version} after {latest}")
                if not keep:
                    connection.close()
            except (OSError, http.client.HTTPException) as error:
                self.failures.append(repr(error))
                connection.close()
        connection.close()

    def check(self) -> None:
        """Check that each answer is of one generation in all its parts, and none is too old."""
        assert not self.failures
        assert {answer.status for answer in self.answers} == {200}
        for name in ("configuration", "pyramid", "etag"):
            bodies = defaultdict(set)
            for answer in self.answers:
                bodies[getattr(answer, name)].add(answer.body)
            mixed = {key: found for key, found in bodies.items() if len(found) > 1}
            assert not mixed, name
        assert all(answer.pyramid in answer.etag for answer in self.answers)

    def __enter__(self) -> Clients:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()


@contextmanager
def running_nodes(
    folder: Path, place: Published, count: int, **server: Any
) -> Iterator[list[Node]]:
    """Publish version 0, and start nodes that follow it."""
    place.put_layer(LAYER)
    place.put_list(LAYER)
    place.publish(0)
    with ExitStack() as stack:
        nodes = []
        for number in range(count):
            nodes.append(Node(folder / f"node-{number}", place, **server))
            stack.enter_context(nodes[-1].server)
        yield nodes


def change_and_compare(nodes: list[Node], place: Published, changes: int) -> list[float]:
    """Publish versions under load, check all answers; return the seconds until all nodes agree."""
    seconds = []
    with Clients(nodes) as clients:
        for number in range(1, changes + 1):
            content = place.publish(number)
            begin = time.monotonic()
            for node in nodes:
                node.await_content(content)
            seconds.append(time.monotonic() - begin)
    clients.check()
    assert len({answer.pyramid for answer in clients.answers}) == changes + 1
    generations = set()
    for node in nodes:
        node.await_reason()
        generations.add(node.readiness()[1]["generation"])
    assert len(generations) == 1
    return seconds
