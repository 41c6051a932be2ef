"""Protocols of other elevation services, one module each (elevation.md 3)."""
