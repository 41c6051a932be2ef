"""Answers that are tiles: stored ones, and tiles drawn for another tile matrix set or style."""
