"""Containers of stored tiles: what finds and reads the tiles of a level, wherever they are."""
