"""Connections of one process: the event loop, FastCGI and HTTP."""
