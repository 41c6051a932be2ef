"""Former names of `mastaba_ows.inspire` (mastaba-ows): INSPIRE requirements for capabilities."""

from mastaba.api._deprecated import former_names

_MOVED = ("add_extended_capabilities", "is_wanted", "namespaces", "schema_locations")
__getattr__ = former_names(
    __name__, {name: (f"mastaba_ows.inspire.{name}", "2.0") for name in _MOVED}
)
