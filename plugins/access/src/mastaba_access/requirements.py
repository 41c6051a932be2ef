"""What a configuration must be like for access to it to be restricted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mastaba.api.catalogue import Catalogue
from mastaba.api.services import Site
from mastaba_access.identifiers.faults import refuse


def require_places_for_credentials(catalogue: Catalogue) -> None:
    """Check that a credential can be a segment of the addresses of all services.

    Raises:
        ConfigurationError: it cannot.
    """
    for name in catalogue.layers:
        if name.startswith("~"):
            reason = f"the layer {name} begins like a credential in an address"
            refuse("rules", reason, "rename the layer, or remove the section plugins.access")
    for name, one in catalogue.services.items():
        if "?" in one.endpoint_uri:
            reason = f"endpoint_uri of {name} has a query, so addresses cannot contain a credential"
            refuse("rules", reason, f"remove the query from {name}.endpoint_uri in services.json")


def require_free_names(site: Site, access: Mapping[str, Any]) -> None:
    """Check that no service or layer has a parameter with the name of a credential.

    Raises:
        ConfigurationError: one has.
    """
    names = {name.lower() for name in access.get("names", ())}
    for service in site.catalogue.services:
        for name in sorted(names & site.plugins.services[service].parameters):
            reason = f"{name} is a parameter of {service}, and would be taken out of its requests"
            refuse("names", reason, "leave it out of the list")
    for layer in site.catalogue.layers.values():
        for one in layer.dimensions:
            if not names.isdisjoint((one.name, f"dim_{one.name}")):
                reason = (
                    f"{one.name} is a dimension of the layer {layer.id}, whose values would be lost"
                )
                refuse("names", reason, "leave it out of the list")


def require_secret(catalogue: Catalogue) -> None:
    """Check that not anyone may administrate what is restricted.

    Raises:
        ConfigurationError: the administration has no secret.
    """
    admin = catalogue.services.get("admin")
    if admin is not None and not admin.own.get("secret"):
        reason = "restricts access, but anyone may use the administration: it has no secret"
        refuse("rules", reason, "set admin.secret in services.json")
