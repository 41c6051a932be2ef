import os
import subprocess
import sys

import pytest

from mastaba.environment import Environment
from mastaba.errors import StorageError
from mastaba_storage_ceph.cluster import ClusterSettings, load_rados
from mastaba_storage_ceph.storage import CephStorage


def test_settings_have_the_defaults_of_existing_tools() -> None:
    settings = ClusterSettings.from_environment(Environment({}))
    assert settings == ClusterSettings("/etc/ceph/ceph.conf", "client.admin", "ceph", 60)


def test_settings_of_an_existing_installation() -> None:
    variables = {
        "ROK4_CEPH_CONFFILE": "/srv/ceph.conf",
        "ROK4_CEPH_USERNAME": "maps",
        "ROK4_CEPH_CLUSTERNAME": "big",
        "ROK4_NETWORK_TIMEOUT": "5",
    }
    settings = ClusterSettings.from_environment(Environment(variables))
    assert settings == ClusterSettings("/srv/ceph.conf", "client.maps", "big", 5)


def test_missing_client_library_is_reported() -> None:
    # In another process, because this one may have imported the module already.
    code = (
        "import sys\n"
        "sys.modules['rados'] = None\n"
        "from mastaba.environment import Environment\n"
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


def test_unusable_configuration_file_is_reported_with_its_variable() -> None:
    try:
        load_rados()
    except StorageError:
        pytest.skip("librados for Python is not installed")
    environment = Environment({"MASTABA_CEPH_CONFFILE": "/nowhere/ceph.conf"})
    with pytest.raises(StorageError, match=r"/nowhere/ceph\.conf .* MASTABA_CEPH_CONFFILE"):
        CephStorage.open("maps", environment)
