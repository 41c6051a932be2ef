"""Level *errors*: every error has the protocol's form, and discloses nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NoReturn

import pytest

from mastaba.api.services import Service
from mastaba.api.storages import ByteRange, Environment, ObjectRead, ObjectStat, Storage
from mastaba.api.tools import Application
from mastaba.api.web import STATUS_LINES, Request, Response
from mastaba.errors import (
    AccessDeniedError,
    InvalidParameterError,
    MastabaError,
    MissingParameterError,
    ObjectChangedError,
    OverloadedError,
    RequestError,
    RequestTooLargeError,
    SlabFormatError,
    StorageUnavailableError,
    TileNotFoundError,
    TileOutOfRangeError,
    UnknownNameError,
    UnknownPathError,
    UnsupportedFormatError,
    UnsupportedOperationError,
)
from mastaba_conformance.services.kit import Answer, ServiceKit, send

Ask = Callable[..., Answer]

_SECRET = "s3://secret-bucket/srv/secret-path"  # noqa: S105 - must not be disclosed
_MARKUP = '<script>alert("x")</script> & \' ]]> \x00\x1b é'

_INTERNAL: Sequence[Exception] = (
    StorageUnavailableError(_SECRET, storage=_SECRET, key=_SECRET),
    AccessDeniedError(_SECRET),
    ObjectChangedError(_SECRET),
    SlabFormatError(_SECRET),
    MastabaError(_SECRET),
    RuntimeError(_SECRET),
    KeyError(_SECRET),
    OSError(5, "Input/output error", _SECRET),
)
_FOR_CLIENTS: Sequence[RequestError] = (
    RequestError("an error"),
    MissingParameterError("an error", "layer"),
    InvalidParameterError("an error", "layer"),
    UnknownNameError("an error", "layer"),
    UnsupportedFormatError("an error", "format"),
    UnsupportedOperationError("an error", "request"),
    TileOutOfRangeError("an error", ["row", "col"]),
    TileNotFoundError("an error"),
    UnknownPathError("an error"),
    RequestTooLargeError("an error"),
)


class FailingStorage(Storage):
    """A storage whose reads fail, and which notes that there were any."""

    name = "failing"
    container_field = None

    def __init__(self, error: Exception) -> None:
        super().__init__("container")
        self._error = error
        self.was_read = False

    @classmethod
    def open(cls, container: str, environment: Environment) -> NoReturn:
        raise TypeError("created with an error")

    def read(
        self, key: str, byte_range: ByteRange | None = None, version: str | None = None
    ) -> ObjectRead:
        self._fail()

    def stat(self, key: str) -> ObjectStat:
        self._fail()

    def _fail(self) -> NoReturn:
        self.was_read = True
        raise self._error


class ErrorTests(ServiceKit):
    level = "errors"

    def test_invalid_paths_are_client_errors(self, ask: Ask) -> None:
        if not self.invalid_paths:
            pytest.skip("not declared: invalid_paths")
        for path in self.invalid_paths:
            answer = ask(path)
            assert 400 <= answer.status < 500, f"{answer.request}: {answer.status}"
            self.check_error(answer)

    def test_unknown_path_is_reported_in_the_form_of_the_protocol(self, ask: Ask) -> None:
        self.check_error(ask("/no/such/path"))

    @pytest.mark.parametrize(
        "error", [*_INTERNAL, OverloadedError("busy", 7)], ids=lambda error: type(error).__name__
    )
    def test_failing_storage_is_a_server_error(
        self, open_application: Callable[..., Application], error: Exception
    ) -> None:
        application = open_application(self.settings, {})
        storage = FailingStorage(error)
        for readers in application.site.catalogue.readers.values():
            for reader in readers.values():
                reader.storage = storage
        service = application.site.services[self.service_class.name]
        for path in self.paths:
            storage.was_read = False
            answer = send(application, service.settings.root_path + path)
            if not storage.was_read:
                assert answer.status == 200, f"{answer.request}: {answer.status}"
                continue
            assert answer.status >= 500, f"{answer.request}: {answer.status} while the store fails"
            if isinstance(error, OverloadedError):
                assert (answer.status, answer.headers.get("retry-after")) == (503, "7")
            assert b"secret" not in answer.body, f"{answer.request} discloses {answer.body!r:.300}"
            self.check_error(answer)

    def test_client_errors_are_reported(self, service: Service) -> None:
        for error in _FOR_CLIENTS:
            answer = self._reported(service, error)
            # 501 is the status of operations that are not offered.
            is_for_client = 200 <= answer.status < 500 or answer.status == 501
            assert is_for_client, f"{answer.request} is answered {answer.status}"

    def test_server_errors_disclose_nothing(self, service: Service) -> None:
        for error in _INTERNAL:
            answer = self._reported(service, error)
            assert answer.status >= 500, f"{answer.request} is answered {answer.status}"
            hidden = b"secret" not in answer.body
            assert hidden, f"{answer.request} is answered with its details: {answer.body!r:.300}"
            for name in (b"Error", b"Traceback"):
                assert type(error).__name__.encode() not in answer.body, name

    def test_texts_of_clients_are_escaped(self, service: Service) -> None:
        for error in (
            InvalidParameterError(_MARKUP, _MARKUP),
            UnknownNameError(_MARKUP, "layer"),
            TileOutOfRangeError(_MARKUP, [_MARKUP]),
        ):
            answer = self._reported(service, error)
            if answer.media_type.endswith(("xml", "html")):
                assert b"<script>" not in answer.body, f"{answer.request}: not escaped"

    def _reported(self, service: Service, error: Exception) -> Answer:
        """Return what the service reports for an error, after checks of its form."""
        environ = {"REQUEST_METHOD": "GET", "PATH_INFO": "", "QUERY_STRING": ""}
        response = service.error_response(error, Request("GET", "", "", environ))
        name = f"error_response({type(error).__name__})"
        assert isinstance(response, Response), f"{name} returns {response!r:.80}"
        assert response.status in STATUS_LINES, f"{name}: {response.status} is not an HTTP status"
        headers = {key.lower(): text for key, text in response.headers}
        assert isinstance(response.body, bytes), f"{name}: the body is bytes"
        answer = Answer(name, response.status, headers, response.body)
        if answer.status >= 400:
            self.check_error(answer)
        return answer
