"""Level *declaration*: class attributes, settings, and the entry in the list of services."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from mastaba.api.services import RootEntry, Service
from mastaba.api.tools import Application
from mastaba_conformance.services.kit import PUBLIC_URL, ServiceKit, check_document, send

_OF_THE_CORE = frozenset(
    ("enabled", "endpoint_uri", "root_path", "title", "abstract", "keywords", "metadata")
)
_METHOD = re.compile(r"[A-Z]+")
_PATH = re.compile(r"(/[A-Za-z0-9._~-]+)+|/")


class DeclarationTests(ServiceKit):
    level = "declaration"

    def test_class_attributes(self) -> None:
        service = self.service_class
        assert re.fullmatch(r"[a-z][a-z0-9_-]*", service.name)
        assert service.title.strip()
        path = service.default_root_path
        assert path is None or _PATH.fullmatch(path)
        assert service.allowed_methods
        assert isinstance(service.allowed_methods, tuple)
        assert all(_METHOD.fullmatch(method) for method in service.allowed_methods)

    def test_settings_have_schemas_and_descriptions(self) -> None:
        # With the packages for all formats, the import takes more than two seconds.
        import jsonschema
        from referencing import Registry

        for name, schema in self.service_class.settings_schema.items():
            assert name not in _OF_THE_CORE, f"the core has a setting {name!r}"
            jsonschema.Draft202012Validator.check_schema(schema)
            assert schema.get("description"), f"the setting {name!r} has no description"
            if "default" in schema:
                # Without documents of others: a schema must not make a request.
                jsonschema.validate(schema["default"], schema, registry=Registry())

    def test_settings_are_optional(self, open_application: Callable[..., Application]) -> None:
        required = self.service_class.settings_schema
        if any("default" not in schema for schema in required.values()) and self.settings:
            pytest.skip("not declared: defaults of all settings")
        application = open_application({}, {})
        assert self.service_class.name in application.site.services

    def test_addresses_are_public(self, service: Service) -> None:
        entry = service.root_entry()
        if entry is not None:
            assert isinstance(entry, RootEntry)
            assert entry.href.startswith(PUBLIC_URL)
            assert entry.json_href is None or entry.json_href.startswith(PUBLIC_URL)
        page = service.page_uri()
        assert page is None or page.startswith(PUBLIC_URL)

    def test_list_of_services_is_written(self, application: Application, service: Service) -> None:
        if not service.settings.root_path:
            pytest.skip("not declared: a root path other than /")
        for accept in ("application/xml", "application/json", "text/html"):
            answer = send(application, "/", headers={"Accept": accept})
            assert answer.status == 200
            entry = service.root_entry()
            assert entry is None or PUBLIC_URL.encode() in answer.body
            check_document(answer)
