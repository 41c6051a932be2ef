"""Drawn tiles: of other tile matrix sets, in other formats, and in place of missing ones."""
