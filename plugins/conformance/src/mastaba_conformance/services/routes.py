"""Level *routes*: paths, methods, layers that are not published, unknown parameters."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mastaba.api.tools import Application
from mastaba_conformance.services.kit import Answer, ServiceKit, send

Ask = Callable[..., Answer]


class RouteTests(ServiceKit):
    level = "routes"

    def test_paths_are_answered(self, ask: Ask) -> None:
        assert self.paths, "set paths"
        for path in self.paths:
            answer = ask(path)
            assert answer.status == 200, f"{answer.request}: {answer.status} {answer.body[:200]!r}"
            assert answer.body, answer.request

    def test_paths_are_below_any_root_path(
        self, open_application: Callable[..., Application]
    ) -> None:
        application = open_application({**self.settings, "root_path": "/other/place"}, {})
        for path in self.paths:
            answer = send(application, f"/other/place{path}")
            assert answer.status == 200, f"{answer.request}: {answer.status} {answer.body[:200]!r}"

    def test_head_is_get_without_body(self, ask: Ask) -> None:
        if "GET" not in self.service_class.allowed_methods:
            pytest.skip("not declared: the method GET")
        for path in (*self.paths, *self.invalid_paths):
            get, head = ask(path), ask(path, "HEAD")
            assert head.status == get.status, head.request
            for name in ("content-type", "content-length", "etag"):
                assert head.headers.get(name) == get.headers.get(name), f"{head.request}: {name}"

    def test_options_and_other_methods(self, ask: Ask) -> None:
        allowed = set(self.service_class.allowed_methods)
        path = self.paths[0]
        if "OPTIONS" not in allowed:
            options = ask(path, "OPTIONS")
            assert options.status == 204
            assert allowed <= set(options.headers["allow"].split(", "))
        for method in {"POST", "PUT", "DELETE", "PATCH", "TRACE"} - allowed:
            assert ask(path, method, body=b"<x/>").status == 405

    def test_unknown_paths_are_client_errors(self, ask: Ask) -> None:
        for path in ("/no/such/path", "/no-such-path", f"{self.paths[-1].partition('?')[0]}/more"):
            answer = ask(path)
            assert 400 <= answer.status < 500, f"{answer.request}: {answer.status}"

    def test_layers_may_be_hidden(self, open_application: Callable[..., Application]) -> None:
        if self.layer is None:
            pytest.skip("not declared: layer")
        name = self.service_class.name
        application = open_application(self.settings, {name: {"enabled": False}})
        root_path = application.site.services[name].settings.root_path
        for path in self.paths:
            answer = send(application, root_path + path)
            if self.layer in path:
                assert 400 <= answer.status < 500, f"{answer.request} shows a layer that is hidden"
            else:
                named = self.layer.encode() in answer.body
                assert not named, f"{answer.request} names a layer that is hidden"

    def test_unknown_parameters_are_ignored(self, ask: Ask) -> None:
        if not self.ignores_unknown_parameters:
            pytest.skip("not declared: ignores_unknown_parameters is not set")
        for path in self.paths:
            further = f"{path}{'&' if '?' in path else '?'}no_such=1&no_such=2&=&&other"
            plain, answer = ask(path), ask(further)
            assert answer.status == 200, f"{answer.request}: {answer.status}"
            same = answer.body == plain.body
            assert same, f"{answer.request}: another answer because of an unknown parameter"
