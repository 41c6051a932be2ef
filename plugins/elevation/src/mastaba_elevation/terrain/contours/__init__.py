"""Contour lines as vector tiles (elevation.md 6)."""
