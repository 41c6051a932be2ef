"""Storage drivers: their base class, and what a driver needs."""

from mastaba.environment import Environment
from mastaba.storage.base import MAX_WHOLE, ByteRange, ObjectRead, ObjectStat, Storage
from mastaba.storage.file import FileStorage
from mastaba.storage.managed import WaitingRoom
from mastaba.storage.path import ResourcePath
from mastaba.storage.pool import StoragePool
from mastaba.storage.retry import network_timeout, read_timeout
from mastaba_server.threads.bounded_calls import BoundedCalls
from mastaba_server.threads.per_process import PerProcess

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
]
