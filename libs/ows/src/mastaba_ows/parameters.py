"""Grammar of parameters, for protocols; see `mastaba_server.web.parameters`."""

from mastaba_server.web.parameters import (
    Colour,
    colour,
    decimal,
    decimals,
    flag,
    integer,
    items,
    size,
    whole_number,
)

__all__ = [
    "Colour",
    "colour",
    "decimal",
    "decimals",
    "flag",
    "integer",
    "items",
    "size",
    "whole_number",
]
