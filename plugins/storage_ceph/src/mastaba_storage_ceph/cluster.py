"""Connections to Ceph clusters, shared by all pools."""

from __future__ import annotations

import importlib
import os
from functools import lru_cache
from typing import Any, Final

from mastaba.api.storages import Environment, PerProcess
from mastaba.errors import AccessDeniedError, StorageError, StorageUnavailableError

_TIMEOUT: Final = 30
_TIMEOUT_OPTIONS: Final = ("client_mount_timeout", "rados_mon_op_timeout", "rados_osd_op_timeout")


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


@lru_cache(maxsize=1)
def shared_cluster(environment: Environment) -> PerProcess[Any]:
    """Return the connection (a ``rados.Rados``) shared by all pools of an environment."""
    return PerProcess(lambda: connect(environment))


def operation_timeout(environment: Environment) -> int:
    """Return the limit of an operation in seconds, which librados applies to the whole of it.

    It is NETWORK_TIMEOUT, or else OBJECT_READ_TIMEOUT. Without a limit, librados would wait for a
    cluster that does not answer, and nothing could interrupt it.
    """
    for name in ("NETWORK_TIMEOUT", "OBJECT_READ_TIMEOUT"):
        timeout = environment.integer(name, 0)
        if timeout > 0:
            return timeout
    return _TIMEOUT


def connect(environment: Environment) -> Any:
    """Return a new connection, from the variables CEPH_* and the timeouts.

    Raises:
        AccessDeniedError: the cluster refuses the user, or the user has no key.
        StorageUnavailableError: the cluster does not answer in time.
        StorageError: the configuration file cannot be used.
    """
    conffile = environment.text("CEPH_CONFFILE") or "/etc/ceph/ceph.conf"
    user = environment.text("CEPH_USERNAME") or "client.admin"
    user = user if "." in user else f"client.{user}"
    rados = load_rados()
    # librados would wait for a writer to a FIFO, and takes a missing file for empty.
    if not os.path.isfile(conffile):
        exists = os.path.exists(conffile)
        problem = "is not a regular file" if exists else "does not exist"
        raise StorageError(
            f"the file {conffile} {problem}: set MASTABA_CEPH_CONFFILE to the "
            "configuration file of the cluster",
            storage="ceph://",
        )
    try:
        cluster = rados.Rados(
            name=user,
            clustername=environment.text("CEPH_CLUSTERNAME") or "ceph",
            conffile=conffile,
        )
        for option in _TIMEOUT_OPTIONS:
            cluster.conf_set(option, str(operation_timeout(environment)))
    except rados.Error as error:
        raise StorageError(
            f"the file {conffile} (MASTABA_CEPH_CONFFILE) cannot be used: {error}",
            storage="ceph://",
        ) from error
    try:
        cluster.connect()
    except rados.TimedOut as error:
        raise StorageUnavailableError(
            f"the cluster in {conffile} does not answer: {error}", storage="ceph://"
        ) from error
    except rados.Error as error:
        raise AccessDeniedError(
            f"the cluster in {conffile} refuses the user {user} "
            f"(set MASTABA_CEPH_USERNAME to another user, or check its keyring): {error}",
            storage="ceph://",
        ) from error
    return cluster
