"""The same error has the same status in every service."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NoReturn

import pytest
from tests.conftest import OpenClient
from tests.container_cog.served import addresses
from tests.tiny import tiny_installation

from mastaba import errors
from mastaba.api.services import Service
from mastaba.api.storages import FileStorage
from mastaba.api.tools import Plugins, create_application
from mastaba.api.web import Request
from mastaba_server.messages import FAILURE

STATUSES = [
    (errors.StorageError("s3://secret is broken"), 503),
    (errors.ObjectNotFoundError("s3://secret is gone"), 503),
    (errors.ObjectChangedError("s3://secret has changed"), 503),
    (errors.AccessDeniedError("s3://secret refuses"), 503),
    (errors.StorageUnavailableError("s3://secret does not answer"), 503),
    (errors.SlabFormatError("secret is damaged"), 500),
    (errors.MastabaError("secret"), 500),
    (ValueError("secret"), 500),
    (errors.RequestError("invalid"), 400),
    (errors.UnknownPathError("nothing"), 404),
    (errors.RequestTooLargeError("too many pixels"), 413),
    (errors.OverloadedError("busy"), 503),
]
PATHS = {
    "elevation": ("", "/edr", "/ign", "/maps/api/elevation/json", "/rest/services/height"),
    "wmts": ("", "/1.0.0/WMTSCapabilities.xml"),
}
"""Paths of services whose protocols report errors in different forms."""

QUERIES = {
    "wms": ("VERSION=1.3.0", "VERSION=1.1.1"),
    "wcs": ("VERSION=2.0.1", "VERSION=1.0.0"),
}
"""Likewise, queries."""


@pytest.fixture(scope="module")
def services(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Service]:
    """Return all installed services; a new one is among them."""
    folder = tmp_path_factory.mktemp("services")
    (folder / "rules.json").write_text(json.dumps({"default": "allow", "rules": []}))
    installed = Plugins().services
    # Settings that services need.
    needed = {"export": {"directory": str(folder / "export")}, "admin": {"secret": "swordfish"}}
    overrides = {
        name: {"enabled": True, **needed.get(name, {})}
        for name, kind in installed.items()
        if not kind.is_fallback
    }
    server = tiny_installation(
        folder,
        services=(),
        services_overrides=overrides,
        server_overrides={
            "plugins": {
                "access": {"rules": str(folder / "rules.json")},
                "usage": {"directory": str(folder / "usage")},
            }
        },
    )
    found = create_application(str(server)).site.services
    assert found.keys() == installed.keys()
    return dict(found)


@pytest.mark.parametrize(
    ("error", "status"),
    STATUSES,
    ids=lambda item: str(item) if isinstance(item, int) else type(item).__name__,
)
def test_statuses_agree(services: dict[str, Service], error: Exception, status: int) -> None:
    found = {}
    for name, service in services.items():
        for path in PATHS.get(name, ("",)):
            for query in QUERIES.get(name, ("",)):
                answer = service.error_response(error, Request("GET", path, query, {}))
                found[name + path + query] = answer.status
                assert b"secret" not in answer.body, name
    assert set(found.values()) == {status}, found


def test_clients_are_told_when_a_storage_may_answer_again(
    tmp_path: Path, open_client: OpenClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    services = ("wmts", "tms", "wms", "wcs", "ogcapi", "elevation")
    server = tiny_installation(tmp_path, services=services)
    layer = tmp_path / "layers" / "RGB_PNG.json"
    layer.write_text(json.dumps(json.loads(layer.read_text()) | {"wcs": {"enabled": True}}))
    client = open_client(server)
    application = client.application

    def fail(*args: object, **kwargs: object) -> NoReturn:
        raise errors.StorageUnavailableError("it does not answer")

    for name in ("read", "read_ranges", "stat"):
        monkeypatch.setattr(FileStorage, name, fail)
    box = "1000000,1000000,9000000,9000000"
    size = "WIDTH=64&HEIGHT=64&FORMAT=image/png"
    asked = addresses("RGB_PNG", "2", 1, 2, "image/png", "png") | {
        "WMS": "/wms?SERVICE=WMS&VERSION=1.3.0&REQUEST=GetMap&LAYERS=RGB_PNG&STYLES=&CRS=EPSG:3857"
        f"&BBOX={box}&{size}",
        "WCS": "/wcs?SERVICE=WCS&VERSION=2.0.1&REQUEST=GetCoverage&COVERAGEID=RGB_PNG"
        "&SCALESIZE=i(9),j(9)",
        "OGC map": f"/ogcapi/collections/RGB_PNG/map?bbox={box}&bbox-crs=EPSG:3857&width=64&f=png",
        "heights": "/elevation/edr/collections/FLOAT32_RAW/position?coords=POINT(45+45)",
    }
    for protocol, address in asked.items():
        answer = client.get(address)
        assert answer.status_code == 503, (protocol, answer.text)
        assert answer.headers.getlist("Retry-After") == ["10"], protocol
    # The table of tiles leaves an error to the general path.
    failure: Any = None
    try:
        application.stored_tile(asked["TMS"], "", {})
    except errors.StorageError as error:
        failure = error
    answer = client.get(asked["TMS"], environ_overrides={FAILURE: failure})
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "10")
