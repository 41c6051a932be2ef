import itertools
import os
import socket

import pytest

from mastaba.api.storages import Environment
from mastaba.errors import StorageError
from mastaba_conformance.object_server import ObjectServer
from mastaba_conformance.storage import StorageTests
from mastaba_storage_obstore.storage import ObstoreStorage


def open_store(url, timeout="30", **options):
    settings = {"stores": {"maps": {"url": url, "options": options}}}
    environment = Environment({"MASTABA_NETWORK_TIMEOUT": timeout})
    return ObstoreStorage.open("maps", environment.with_settings(settings))


class Bucket:
    def __init__(self, server):
        self._server = server

    def put(self, key, data):
        self._server.put("maps", key, data)

    def delete(self, key):
        self._server.delete("maps", key)


class Directory:
    def __init__(self, directory):
        self._directory = directory
        self._numbers = itertools.count()

    def put(self, key, data):
        (self._directory / key).parent.mkdir(parents=True, exist_ok=True)
        new = self._directory / f"new-{next(self._numbers)}"
        new.write_bytes(data)
        os.replace(new, self._directory / key)

    def delete(self, key):
        (self._directory / key).unlink()


class ObstoreTests(StorageTests):
    keys_are_paths = True
    shares_connections = True  # the helper process and obstore's threads belong to the process


class TestS3(ObstoreTests):
    time_limit = 240.0  # after a fork of this process, a helper answers one read at a time

    @pytest.fixture
    def server(self):
        with ObjectServer() as server:
            server.make_container("maps")
            yield server

    @pytest.fixture
    def open(self, server):
        credentials = {"access_key_id": "key", "secret_access_key": "secret"}

        def open(url=server.url, timeout="30", **changes):
            options = {"endpoint": url, "region": "us-east-1", **credentials, **changes}
            return open_store("s3://maps", timeout, **options)

        return open

    @pytest.fixture
    def storage(self, open):
        return open()

    @pytest.fixture
    def writer(self, server):
        return Bucket(server)

    @pytest.fixture
    def outage(self, server):
        return server.outage

    @pytest.fixture(params=[{"secret_access_key": "wrong"}, {"access_key_id": "unknown"}])
    def open_refused(self, open, request):
        return lambda: open(**request.param)

    @pytest.fixture
    def open_unreachable(self, open):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = listener.getsockname()[1]
        return lambda: open(f"http://127.0.0.1:{port}")

    @pytest.fixture
    def open_silent(self, open):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            yield lambda: open(f"http://127.0.0.1:{listener.getsockname()[1]}", "1")


class TestDirectory(ObstoreTests):
    @pytest.fixture
    def writer(self, tmp_path):
        return Directory(tmp_path)

    @pytest.fixture
    def storage(self, writer, tmp_path):
        return open_store(tmp_path.as_uri())


def test_unknown_store_is_reported():
    with pytest.raises(StorageError, match="no store maps"):
        ObstoreStorage.open("maps", Environment({}))


def test_unknown_option_is_reported(tmp_path):
    with pytest.raises(StorageError, match="no_such_option"):
        open_store("s3://maps", no_such_option="1")
