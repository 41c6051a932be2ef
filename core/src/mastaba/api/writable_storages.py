"""Storages that are also written; for drivers with which pyramids can be built, and for builders.

A serving process imports none of their subclasses.
"""

from mastaba_storage.writable import WritableStorage

__all__ = ["WritableStorage"]
