"""A view shares the services that are the same for all clients."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from mastaba.services import views


def test_a_service_without_views_is_that_of_the_site() -> None:
    shared, viewed = SimpleNamespace(is_viewed=False), SimpleNamespace(is_viewed=True)
    services = {"shared": shared, "viewed": viewed}
    catalogue = SimpleNamespace(services=services)
    view: Any = SimpleNamespace(
        main=SimpleNamespace(services=services), catalogue=catalogue, virtual=""
    )
    found = views._Services(view, lambda _name: view.catalogue)
    assert dict.get(found, "shared") is shared
    assert dict.get(found, "viewed") is None
    view.virtual = "partner"
    assert dict.get(views._Services(view, lambda _name: view.catalogue), "shared") is None
