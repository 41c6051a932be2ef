import os
import subprocess
import sys
from pathlib import Path

import pytest

from mastaba.errors import StorageError, StorageUnavailableError
from mastaba_storage.environment import Environment
from mastaba_storage_ceph.cluster import load_rados, operation_timeout
from mastaba_storage_ceph.storage import CephStorage


@pytest.fixture
def rados() -> object:
    try:
        return load_rados()
    except StorageError:
        pytest.skip("librados for Python is not installed")


def test_missing_client_library_is_reported() -> None:
    # In another process, because this one may have imported the module already.
    code = (
        "import sys\n"
        "sys.modules['rados'] = None\n"
        "from mastaba_storage.environment import Environment\n"
        "from mastaba.errors import StorageError\n"
        "from mastaba_storage_ceph.storage import CephStorage\n"
        "try:\n"
        "    CephStorage.open('maps', Environment({}))\n"
        "except StorageError as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=dict(os.environ)
    )
    assert "python3-rados" in done.stdout, done.stderr


def test_unusable_configuration_file_is_reported_with_its_variable(rados: object) -> None:
    environment = Environment({"MASTABA_CEPH_CONFFILE": "/nowhere/ceph.conf"})
    with pytest.raises(StorageError, match=r"/nowhere/ceph\.conf .* MASTABA_CEPH_CONFFILE"):
        CephStorage.open("maps", environment)


def test_variables_of_an_existing_installation_are_used(rados: object, tmp_path: Path) -> None:
    conffile = tmp_path / "ceph.conf"
    # librados writes its log under the names that it was given.
    conffile.write_text(
        f"[global]\nmon_host = v1:127.0.0.1:1\nlog_file = {tmp_path}/$cluster-$name.log\n"
    )
    variables = {
        "ROK4_CEPH_CONFFILE": str(conffile),
        "ROK4_CEPH_USERNAME": "maps",
        "ROK4_CEPH_CLUSTERNAME": "big",
        "ROK4_NETWORK_TIMEOUT": "1",
    }
    with pytest.raises(StorageUnavailableError, match=f"{conffile} does not answer"):
        CephStorage.open("maps", Environment(variables))
    assert (tmp_path / "big-client.maps.log").is_file()


@pytest.mark.parametrize(
    ("variables", "seconds"),
    [
        ({}, 30),
        ({"OBJECT_READ_TIMEOUT": "7"}, 7),
        ({"NETWORK_TIMEOUT": "90", "OBJECT_READ_TIMEOUT": "7"}, 90),
        ({"NETWORK_TIMEOUT": "0", "OBJECT_READ_TIMEOUT": "0"}, 30),
    ],
)
def test_limit_of_an_operation(variables: dict[str, str], seconds: int) -> None:
    environment = Environment({f"MASTABA_{name}": text for name, text in variables.items()})
    assert operation_timeout(environment) == seconds
