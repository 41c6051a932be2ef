"""INSPIRE requirements for capabilities (Directive 2007/2/EC)."""

from mastaba.services.inspire import (
    add_extended_capabilities,
    is_wanted,
    namespaces,
    schema_locations,
)

__all__ = ["add_extended_capabilities", "is_wanted", "namespaces", "schema_locations"]
