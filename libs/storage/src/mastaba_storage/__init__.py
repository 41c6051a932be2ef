"""Byte ranges of objects and files: the base class of storage drivers, and the driver for files.

A driver reads the objects of one container (`mastaba_storage.base`). What is read from a network is
limited, repeated and counted around the driver (`mastaba_storage.managed`). Knows nothing of maps.
"""
