"""Downloads of an area of a layer, which services offer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mastaba.api.catalogue import Layer
    from mastaba.api.services import Site


def downloads(layer: Layer, site: Site) -> list[dict[str, Any]]:
    """Return what the services offer (`mastaba.api.services.Download`), files without a job first.

    Members without a value are left out.
    """
    found = [
        download
        for name, service in site.services.items()
        if name not in layer.hidden_from
        for download in service.downloads(layer)
    ]
    fields = ("format", "name", "template", "process", "inputs", "takes")
    return [
        {field: value for field in fields if (value := getattr(download, field))}
        for download in sorted(found, key=lambda download: bool(download.process))
    ]
