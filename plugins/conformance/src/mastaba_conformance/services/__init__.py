"""Conformance tests for services: subclass `ServiceTests` and set its class attributes.

For example::

    class TestXyzService(ServiceTests):
        service_class = XyzService
        paths = ("", "/RGB_PNG/3/4/2")
        invalid_paths = ("/RGB_PNG/3/x/2",)
        error_types = ("text/plain",)
        layer = "RGB_PNG"
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from mastaba_conformance.deadline import together
from mastaba_conformance.services.declaration import DeclarationTests
from mastaba_conformance.services.documents import CachingTests, DocumentTests
from mastaba_conformance.services.errors import ErrorTests
from mastaba_conformance.services.hiding import HidingTests
from mastaba_conformance.services.hostile import HostileTests
from mastaba_conformance.services.kit import Answer, ServiceKit
from mastaba_conformance.services.routes import RouteTests
from mastaba_conformance.services.table import TableTests

__all__ = ["HidingTests", "ServiceTests"]

_THREADS = 8
_REPEATS = 5


class ThreadTests(ServiceKit):
    level = "threads"

    def test_many_threads(self, ask: Callable[..., Answer]) -> None:
        requests = (*self.paths, *self.invalid_paths)
        expected = {path: ask(path) for path in requests}
        barrier = threading.Barrier(_THREADS)

        def use(thread: int) -> None:
            barrier.wait(self.time_limit)
            for number in range(_REPEATS * len(requests)):
                path = requests[(thread + number) % len(requests)]
                answer = ask(path)
                same = (answer.status, answer.body) == (expected[path].status, expected[path].body)
                assert same, f"{answer.request}: another answer in one of many threads"

        together(
            self.time_limit,
            "a request in one of many threads",
            [lambda thread=thread: use(thread) for thread in range(_THREADS)],  # type: ignore[misc]
        )


class ServiceTests(
    DeclarationTests,
    RouteTests,
    ErrorTests,
    DocumentTests,
    CachingTests,
    TableTests,
    HostileTests,
    HidingTests,
    ThreadTests,
):
    """The contract of `mastaba.api.services.Service`, in levels.

    Subclasses set ``service_class``, ``paths`` and ``error_types``. The other class attributes
    declare abilities. The fixture ``plugins`` chooses the plugins of the server.

    Attributes:
        service_class: the tested service.
        settings: settings of the service in services.json, in addition to ``enabled``.
        layer_settings: keys of all layer documents, for a service that a layer must turn on.
        other_services: sections of further services, for a service that links to them.
        paths: requests that are answered with 200: paths below the root path, with their queries.
            The installation is that of
            `mastaba_conformance.tiny_installation.tiny_installation`.
        invalid_paths: requests that are answered with a client error.
        error_types: media types of error reports.
        layer: the layer in ``paths``, which is also hidden from some clients; None if the service
            does not publish layers.
        doors, posts, hidden_layer, server_settings, is_complete_without: see `HidingTests`.
        has_etags: whether responses to ``paths`` have ETags.
        ignores_unknown_parameters: whether query parameters that the service does not know are
            ignored.
        time_limit: seconds after which a test fails because the service hangs.
        kit: kind of plugin, for the report.
        levels: levels of the tests, in the order of the report.
    """
