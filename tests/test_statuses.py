"""The same error has the same status in every protocol."""

from __future__ import annotations

import pytest

from mastaba import errors
from mastaba.api.web import Request, Response
from mastaba_elevation.web.facade import status_of as of_elevation
from mastaba_export.service.errors import error_response as of_export
from mastaba_ogcapi.errors import error_response as of_ogcapi
from mastaba_tms.errors import error_report as of_tms
from mastaba_wcs.errors import error_response as of_wcs
from mastaba_wcs.versions import Version as WCSVersion
from mastaba_wms.errors import error_response as of_wms
from mastaba_wms.versions import Version
from mastaba_wmts.errors import error_response as of_wmts

SERVER_ERRORS = [
    (errors.StorageError("s3://secret is broken"), 503),
    (errors.ObjectNotFoundError("s3://secret is gone"), 503),
    (errors.ObjectChangedError("s3://secret has changed"), 503),
    (errors.AccessDeniedError("s3://secret refuses"), 503),
    (errors.StorageUnavailableError("s3://secret does not answer"), 503),
    (errors.SlabFormatError("secret is damaged"), 500),
    (errors.MastabaError("secret"), 500),
    (ValueError("secret"), 500),
    (errors.RequestTooLargeError("too many pixels"), 413),
]


@pytest.mark.parametrize(
    ("error", "status"),
    SERVER_ERRORS,
    ids=lambda item: str(item) if isinstance(item, int) else type(item).__name__,
)
def test_statuses_agree(error: Exception, status: int) -> None:
    answers: dict[str, Response] = {
        "tms": of_tms(error),
        "wmts": of_wmts(error, restful=False),
        "wmts paths": of_wmts(error, restful=True),
        "wms": of_wms(error, Version.V1_3_0),
        "wms 1.1.1": of_wms(error, Version.V1_1_1),
        "wcs": of_wcs(error, WCSVersion.V2_0_1),
        "wcs 1.0.0": of_wcs(error, WCSVersion.V1_0_0),
        "export": of_export(error),
        "ogcapi": of_ogcapi(error, Request("GET", "", "", {})),
    }
    found = {name: response.status for name, response in answers.items()}
    found["elevation"] = of_elevation(error)
    assert set(found.values()) == {status}, found
    assert not any(b"secret" in response.body for response in answers.values())
