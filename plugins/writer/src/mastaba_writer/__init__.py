"""The writer of slab pyramids.

It shares no code with the readers of the server, so tests can prove one with the other.
"""
