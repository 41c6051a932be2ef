"""Fixtures of the transports, with the services of the core behind them."""

from tests.support.transport import protocol_fixture, serve, spawn

__all__ = ["protocol_fixture", "serve", "spawn"]
