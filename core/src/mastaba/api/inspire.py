"""Former names of `mastaba_ows.inspire` (mastaba-ows): INSPIRE requirements for capabilities."""

from mastaba.api._deprecated import moved_names

_NAMES = "add_extended_capabilities is_wanted namespaces schema_locations"
__getattr__ = moved_names(__name__, {"mastaba_ows.inspire": _NAMES})
