"""What all levels of the tests of a service share: hooks of the author, installations, requests."""

from __future__ import annotations

import io
import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Final
from urllib.parse import unquote

import pytest
from lxml import etree

from mastaba.api.services import Service
from mastaba.api.tools import Application, Plugins, create_application
from mastaba.api.web import Response
from mastaba_conformance.tiny_installation import tiny_installation
from mastaba_writer.installation import write_installation

PUBLIC_URL: Final = "https://public.example/maps"
"""Address of the service for its clients; appears nowhere else."""

_INTERNAL: Final = ("http://localhost", "127.0.0.1", "Traceback (most recent", 'File "/')


@dataclass(frozen=True)
class Answer:
    """A response.

    Attributes:
        request: method and target, for messages.
        status: HTTP status.
        headers: by name in lower case.
        body: whole body.
        headers_read: keys in the WSGI environment of the request headers that were read.
    """

    request: str
    status: int
    headers: Mapping[str, str]
    body: bytes
    headers_read: frozenset[str] = frozenset()

    @property
    def media_type(self) -> str:
        """The Content-Type without parameters."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()


class _Environ(dict[str, Any]):
    """A WSGI environment that records which headers of the request are read."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.read: set[str] = set()

    def _record(self, key: str) -> None:
        if key.startswith("HTTP_"):
            self.read.add(key)

    def __getitem__(self, key: str) -> Any:
        self._record(key)
        return super().__getitem__(key)

    def __contains__(self, key: object) -> bool:
        self._record(str(key))
        return super().__contains__(key)

    def get(self, key: str, default: Any = None) -> Any:
        self._record(key)
        return super().get(key, default)


class ServiceKit:
    """What all levels share; see `ServiceTests`."""

    kit: ClassVar = "service"
    levels: ClassVar = (
        "declaration",
        "routes",
        "errors",
        "documents",
        "caching",
        "table",
        "hostile",
        "hiding",
        "threads",
    )

    time_limit: ClassVar[float] = 60.0
    service_class: ClassVar[type[Service]]
    settings: ClassVar[Mapping[str, Any]] = {}
    layer_settings: ClassVar[Mapping[str, Any]] = {}
    other_services: ClassVar[Mapping[str, Any]] = {}
    paths: ClassVar[Sequence[str]]
    invalid_paths: ClassVar[Sequence[str]] = ()
    error_types: ClassVar[Sequence[str]]
    layer: ClassVar[str | None] = None
    has_etags: ClassVar[bool] = True
    ignores_unknown_parameters: ClassVar[bool] = True

    @pytest.fixture(scope="class")
    @classmethod
    def plugins(cls) -> Plugins | None:
        """The plugins of the tested server; None for all that are installed."""
        return None

    @pytest.fixture(scope="class")
    @classmethod
    def open_application(
        cls, tmp_path_factory: pytest.TempPathFactory, plugins: Plugins | None
    ) -> Iterator[Callable[..., Application]]:
        """A function that opens a server with the service alone.

        Arguments are its settings, and keys of all layer documents.
        """
        opened: list[Application] = []

        def open_it(settings: Mapping[str, Any], layer: Mapping[str, Any]) -> Application:
            name = cls.service_class.name
            section = {"enabled": True, "endpoint_uri": PUBLIC_URL, **settings}
            layers = tiny_layers(tmp_path_factory)
            keys = {**cls.layer_settings, **layer}
            server_json = write_installation(
                tmp_path_factory.mktemp(name),
                layers={identifier: {**layers[identifier], **keys} for identifier in layers},
                services=[],
                services_overrides={**cls.other_services, name: section},
            )
            application = create_application(str(server_json), plugins)
            opened.append(application)
            return application

        yield open_it
        for application in opened:
            application.site.catalogue.storages.close()

    @pytest.fixture(scope="class")
    @classmethod
    def application(cls, open_application: Callable[..., Application]) -> Application:
        """The tested server, with the service alone."""
        return open_application(cls.settings, {})

    @pytest.fixture(scope="class")
    @classmethod
    def service(cls, application: Application) -> Service:
        """The tested service."""
        return application.site.services[cls.service_class.name]

    @pytest.fixture(scope="class")
    @classmethod
    def ask(cls, application: Application, service: Service) -> Callable[..., Answer]:
        """A function that sends a request to the service, and returns an ``Answer``.

        Arguments are the path and query below the root path, the method, headers and a body.
        """
        return lambda path, *arguments, **named: send(
            application, service.settings.root_path + path, *arguments, **named
        )

    def check_error(self, answer: Answer) -> None:
        """Check that an error report has the protocol's form, and discloses nothing."""
        assert answer.media_type in self.error_types, (
            f"{answer.request}: the error report is {answer.media_type or 'of no media type'}, "
            f"not {' or '.join(self.error_types)}: {answer.body[:200]!r}"
        )
        check_document(answer)


def tiny_layers(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Any]:
    """Return the layer documents of the tiny installation, by identifier."""
    return _layers(tmp_path_factory.getbasetemp() / "mastaba-tiny")


@cache
def _layers(directory: Path) -> dict[str, Any]:
    """Write the pyramids of the tiny installation once, and return its layer documents."""
    tiny_installation(directory, services=[])
    return {
        path.stem: json.loads(path.read_text("utf-8"))
        for path in sorted((directory / "layers").glob("*.json"))
    }


def send(
    application: Application,
    target: str,
    method: str = "GET",
    headers: Mapping[str, str] | None = None,
    body: bytes = b"",
) -> Answer:
    """Return the response to one request, after checks that every response must pass.

    Args:
        application: the server.
        target: path and query as a client sends them, percent-encoded.
        headers: names as in HTTP.
    """
    environ = _environ(target, method, headers or {}, body)
    quick = quick_answer(application, target, headers) if method == "GET" else None
    started: list[tuple[str, list[tuple[str, str]]]] = []
    pieces = application(environ, lambda *given: started.append(given[:2]))
    try:
        received = b"".join(pieces)
    finally:
        getattr(pieces, "close", lambda: None)()
    ((status_line, header_list),) = started
    answer = Answer(
        f"{method} {target[:300]}",
        int(status_line.split()[0]),
        {name.lower(): text for name, text in header_list},
        received,
        frozenset(environ.read),
    )
    _check(answer, header_list, method)
    if quick is not None:
        known = (quick.status, quick.headers, quick.body)
        assert known == (answer.status, header_list, received), (
            f"{answer.request}: another answer without Service.respond; "
            "see Service.tile_addresses, and is_constant of Document.respond"
        )
    return answer


def quick_answer(
    application: Application, target: str, headers: Mapping[str, str] | None = None
) -> Response | None:
    """Return what the server answers to a GET request without the service; None if it asks it."""
    environ = _environ(target, "GET", headers or {}, b"")
    try:
        return application.stored_tile(environ["PATH_INFO"], environ["QUERY_STRING"], environ)
    except Exception:  # noqa: BLE001 - any error of the tiles
        return None  # the server passes it on to the service, which reports it


def _environ(target: str, method: str, headers: Mapping[str, str], body: bytes) -> _Environ:
    path, _, query = target.partition("?")
    given = {f"HTTP_{name.upper().replace('-', '_')}": text for name, text in headers.items()}
    environ: dict[str, Any] = {
        "REQUEST_METHOD": method,
        "SCRIPT_NAME": "",
        "PATH_INFO": unquote(path, "latin-1"),
        "QUERY_STRING": query,
        "SERVER_NAME": "localhost",
        "SERVER_PORT": "80",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": "http",
        "wsgi.input": io.BytesIO(body),
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": True,
        "wsgi.multiprocess": True,
        "wsgi.run_once": False,
        **given,
    }
    if body:
        environ["CONTENT_LENGTH"] = str(len(body))
        environ["CONTENT_TYPE"] = given.get("HTTP_CONTENT_TYPE", "text/xml")
    return _Environ(environ)


def _check(answer: Answer, headers: Sequence[tuple[str, str]], method: str) -> None:
    for name, text in headers:
        assert isinstance(text, str), f"{answer.request}: the header {name} is not a str"
        assert re.fullmatch(r"[\x20-\x7e\xa0-\xff\t]*", text), f"{answer.request}: {name}: {text!r}"
    assert "set-cookie" not in answer.headers, f"{answer.request}: caches must not keep cookies"
    if answer.body:
        assert answer.headers.get("content-type"), f"{answer.request}: no Content-Type"
        assert method != "HEAD", f"{answer.request}: HEAD has a body"
    if method != "HEAD" and "content-length" in answer.headers:
        assert int(answer.headers["content-length"]) == len(answer.body), answer.request


def is_text(media_type: str) -> bool:
    return media_type.startswith("text/") or media_type.endswith(("xml", "json", "html"))


def check_document(answer: Answer) -> None:
    """Check that a text is well-formed UTF-8, and that it discloses nothing internal."""
    kind = answer.media_type
    if not answer.body or not is_text(kind) or "content-encoding" in answer.headers:
        return
    try:
        text = answer.body.decode("utf-8")
    except UnicodeDecodeError as error:
        pytest.fail(f"{answer.request}: the {kind} is not UTF-8: {error}")
    for word in _INTERNAL:
        assert word not in text, f"{answer.request}: the answer contains {word!r}"
    try:
        if kind.endswith("json"):
            json.loads(text)
        elif kind.endswith("xml"):
            etree.fromstring(answer.body, etree.XMLParser(resolve_entities=False, no_network=True))
    except (ValueError, etree.XMLSyntaxError) as error:
        pytest.fail(f"{answer.request}: the {kind} is not well-formed: {error}\n{text[:300]}")
