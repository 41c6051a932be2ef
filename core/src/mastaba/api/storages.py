"""Storage drivers: their base class, and what a driver needs."""

from mastaba.storage_pool import StoragePool
from mastaba_server.threads.bounded_calls import BoundedCalls
from mastaba_server.threads.per_process import PerProcess
from mastaba_storage.base import MAX_WHOLE, ByteRange, ObjectRead, ObjectStat, Storage
from mastaba_storage.environment import Environment
from mastaba_storage.file import FileStorage
from mastaba_storage.managed import WaitingRoom
from mastaba_storage.path import ResourcePath
from mastaba_storage.replacing import replaced_file
from mastaba_storage.retry import network_timeout, read_timeout

__all__ = [
    "MAX_WHOLE",
    "BoundedCalls",
    "ByteRange",
    "Environment",
    "FileStorage",
    "ObjectRead",
    "ObjectStat",
    "PerProcess",
    "ResourcePath",
    "Storage",
    "StoragePool",
    "WaitingRoom",
    "network_timeout",
    "read_timeout",
    "replaced_file",
]
