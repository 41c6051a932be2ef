"""The files of an operator: their contents, schemas and problems."""

from typing import Final

SCHEMA_NAMES: Final = ("server", "services", "layer", "pyramid", "tile_matrix_set", "style")
