"""Connections to Ceph clusters, shared by all pools of a cluster and user."""

from __future__ import annotations

import importlib
import os
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, Self

from mastaba.environment import Environment
from mastaba.errors import AccessDeniedError, StorageError, StorageUnavailableError
from mastaba.storage.per_process import PerProcess

_TIMEOUT: Final = 60
_TIMEOUT_OPTIONS: Final = ("client_mount_timeout", "rados_mon_op_timeout", "rados_osd_op_timeout")


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """Connection settings of a cluster.

    Attributes:
        conffile: path of its configuration file.
        username: full name of the user, such as ``client.admin``.
        clustername: name of the cluster.
        timeout: timeout of the connection and of each operation, in seconds.
    """

    conffile: str
    username: str
    clustername: str
    timeout: int = _TIMEOUT

    @classmethod
    def from_environment(cls, environment: Environment) -> Self:
        username = environment.text("CEPH_USERNAME") or "client.admin"
        timeout = environment.integer("NETWORK_TIMEOUT", _TIMEOUT)
        return cls(
            conffile=environment.text("CEPH_CONFFILE") or "/etc/ceph/ceph.conf",
            username=username if "." in username else f"client.{username}",
            clustername=environment.text("CEPH_CLUSTERNAME") or "ceph",
            timeout=timeout if timeout > 0 else _TIMEOUT,
        )


def load_rados() -> Any:
    """Return the Python module of librados.

    Raises:
        StorageError: the module is not installed.
    """
    try:
        return importlib.import_module("rados")
    except ImportError as error:
        raise StorageError(
            "the Python module 'rados' is not installed for this Python: install the system "
            "package python3-rados (it is not on PyPI)",
            storage="ceph://",
        ) from error


@lru_cache(maxsize=16)
def shared_cluster(settings: ClusterSettings) -> PerProcess[Any]:
    """Return the connection (a ``rados.Rados``) shared by all pools of a cluster."""
    return PerProcess(lambda: connect(settings))


def connect(settings: ClusterSettings) -> Any:
    """Return a new connection.

    Raises:
        AccessDeniedError: the cluster refuses the user, or the user has no key.
        StorageUnavailableError: the cluster does not answer in time.
        StorageError: the configuration file cannot be used.
    """
    rados = load_rados()
    # librados would wait for somebody to write to a FIFO, and takes a missing file for empty.
    if not os.path.isfile(settings.conffile):
        exists = os.path.exists(settings.conffile)
        problem = "is not a regular file" if exists else "does not exist"
        raise StorageError(
            f"the file {settings.conffile} {problem}: set MASTABA_CEPH_CONFFILE to the "
            "configuration file of the cluster",
            storage="ceph://",
        )
    options = dict.fromkeys(_TIMEOUT_OPTIONS, str(settings.timeout))
    try:
        cluster = rados.Rados(
            name=settings.username, clustername=settings.clustername, conffile=settings.conffile
        )
        for name, value in options.items():
            cluster.conf_set(name, value)
    except rados.Error as error:
        raise StorageError(
            f"the file {settings.conffile} (MASTABA_CEPH_CONFFILE) cannot be used: {error}",
            storage="ceph://",
        ) from error
    try:
        cluster.connect()
    except rados.TimedOut as error:
        raise StorageUnavailableError(
            f"the cluster in {settings.conffile} does not answer: {error}", storage="ceph://"
        ) from error
    except rados.Error as error:
        raise AccessDeniedError(
            f"the cluster of {settings.conffile} cannot be entered as {settings.username} "
            f"(set MASTABA_CEPH_USERNAME to another user, or check its keyring): {error}",
            storage="ceph://",
        ) from error
    return cluster
