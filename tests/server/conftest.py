"""Fixtures of the server library."""

from tests.support.transport import protocol_fixture, serve, spawn

__all__ = ["protocol_fixture", "serve", "spawn"]
