"""Level *hiding*: a layer that a client may not see does not exist for it, behind every door.

A small gate gives clients one of three views of the tiny installation: that of anonymous clients
hides a layer, one shows everything, and one locks the data of the layer. Another installation
never had the layer: every answer of the first view must be that of this one.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Final

import pytest

from mastaba.api.access import Form, Gate, Grant, LockedReader, Principal, Shown
from mastaba.api.catalogue import Catalogue
from mastaba.api.services import Site
from mastaba.api.tools import Application, Plugins, create_application
from mastaba.errors import ConfigurationError, UnknownCredentialError
from mastaba_conformance.services.kit import (
    PUBLIC_URL,
    Answer,
    ServiceKit,
    is_text,
    send,
    tiny_layers,
)
from mastaba_writer.installation import write_installation

HIDDEN_TITLE: Final = "Quinquagesima Wobbegong"
"""Title of the hidden layer; appears nowhere else."""

_ALL, _LOCKED, _WITHHELD, _HEADER = "all", "locked", "withheld", "X-View"
_WITHOUT_LAYERS: Final = frozenset(("status", "usage"))
_MOST_ADDRESSES: Final = 40
_ADDRESS = re.compile(re.escape(PUBLIC_URL) + r"[^\s\"'<>\\`)]*")
_CONDITIONS: Final = ("*", '"other"')

Views = tuple[Application, Application | None]


class HidingGate(Gate):
    """Shows a layer only to those who name the view in a header or address.

    Args:
        layer: identifier of the layer.
    """

    header_keys = (f"HTTP_{_HEADER.upper().replace('-', '_')}",)
    vary = (_HEADER,)
    secret = b"the same in both installations"
    epoch = 0

    def __init__(self, layer: str) -> None:
        self._layer = layer

    def grant(self, shown: Sequence[Shown], headers: Mapping[str, Any], address: str) -> Grant:
        if not shown:
            return Grant(Principal("anonymous", "anonymous"))
        name = shown[0].text
        if name not in (_ALL, _LOCKED, _WITHHELD):
            raise UnknownCredentialError("unknown view")
        is_in_address = shown[0].form is Form.PATH
        principal = Principal(name, "key")
        return Grant(
            principal,
            name,
            in_addresses=is_in_address,
            is_restricted=True,
            abilities=_WITHOUT_LAYERS,
        )

    def catalogue(self, tag: str, site: Site, virtual: str, service: str = "") -> Catalogue:
        base = site.catalogue
        layers, readers = dict(base.layers), dict(base.readers)
        if tag == _LOCKED:
            levels: dict[str, Any] = {
                level: LockedReader(reader) for level, reader in readers[self._layer].items()
            }
            readers[self._layer] = levels
        elif tag == _WITHHELD:
            kinds = site.plugins.services
            words = [(kind, word) for kind in base.services for word in kinds[kind].abilities]
            layers[self._layer] = replace(layers[self._layer], withheld=frozenset(words))
        elif not tag:
            layers.pop(self._layer, None)
        return base.filtered(layers, readers, base.settings, base.services)


class _WithGate:
    """Plugins, and the gate."""

    def __init__(self, plugins: Plugins, layer: str) -> None:
        self._plugins = plugins
        self._layer = layer

    def __getattr__(self, name: str) -> Any:
        return getattr(self._plugins, name)

    def gate(self, site: Site) -> Gate:
        return HidingGate(self._layer)


class HidingTests(ServiceKit):
    """Also for services without the other tests: subclass it as `ServiceTests`.

    Attributes:
        hidden_layer: the layer that is hidden; None for ``layer``.
        doors: further requests for data and documents, asked beside ``paths``.
        posts: further requests by POST: path, media type and body.
        server_settings: keys of server.json.
        is_complete_without: whether the service can be configured without the layer.
        service_class, settings, layer_settings, paths, invalid_paths, layer: see `ServiceTests`.
        other_services: see `ServiceTests`.
        error_types, has_etags, ignores_unknown_parameters, time_limit: see `ServiceTests`.
        kit, level, levels: for the report.
    """

    level = "hiding"

    hidden_layer: ClassVar[str | None] = None
    doors: ClassVar[Sequence[str]] = ()
    posts: ClassVar[Sequence[tuple[str, str, bytes]]] = ()
    server_settings: ClassVar[Mapping[str, Any]] = {}
    is_complete_without: ClassVar[bool] = True

    @pytest.fixture(scope="class")
    @classmethod
    def views(
        cls, tmp_path_factory: pytest.TempPathFactory, plugins: Plugins | None
    ) -> Iterator[Views]:
        """The server with the hidden layer, and one that never had it."""
        hidden = cls.hidden_layer or cls.layer
        if hidden is None:
            pytest.skip("not declared: layer")
        name = cls.service_class.name
        section = {"enabled": True, "endpoint_uri": PUBLIC_URL, **cls.settings}
        layers = tiny_layers(tmp_path_factory)
        documents = {
            identifier: {
                **document,
                **cls.layer_settings,
                **({"title": HIDDEN_TITLE} if identifier == hidden else {}),
            }
            for identifier, document in layers.items()
        }
        opened: list[Application] = []
        installed: Any = _WithGate(Plugins() if plugins is None else plugins, hidden)

        def open_it(documents: Mapping[str, Any]) -> Application:
            server_json = write_installation(
                tmp_path_factory.mktemp(name),
                layers=documents,
                services=[],
                services_overrides={**cls.other_services, name: section},
                server_overrides=cls.server_settings,
            )
            opened.append(create_application(str(server_json), installed))
            return opened[-1]

        whole, without = open_it(documents), None
        started = whole.site.started
        others = {key: one for key, one in documents.items() if key != hidden}
        try:
            without = open_it(others)
            # Some documents say since when they are valid.
            without.site.started = started
        except ConfigurationError:
            if cls.is_complete_without:
                raise
        yield whole, without
        for application in opened:
            application.site.catalogue.storages.close()

    @pytest.fixture(scope="class")
    @classmethod
    def addresses(cls, views: Views) -> list[str]:
        """Requests: those that are declared, and what the documents lead to."""
        whole, _ = views
        found = dict.fromkeys((*cls.paths, *cls.doors))
        root = whole.site.services[cls.service_class.name].settings.root_path
        hidden = cls.hidden_layer or cls.layer or ""
        linked = dict.fromkeys(
            address
            for path in found
            for address in _linked(send(whole, root + path, headers={_HEADER: _ALL}))
        )
        chosen = sorted(linked, key=lambda address: hidden not in address)[:_MOST_ADDRESSES]
        return [*found, *(one for one in chosen if one not in found), *cls.invalid_paths]

    def _ask(self, application: Application, path: str, *given: Any, **named: Any) -> Answer:
        # Never the service itself, which is that of everything.
        root = application.site.services[self.service_class.name].settings.root_path
        return send(application, root + path, *given, **named)

    def test_a_hidden_layer_is_as_unknown(self, views: Views, addresses: Sequence[str]) -> None:
        whole, without = views
        hidden = self.hidden_layer or self.layer or ""
        for path in addresses:
            answers = [self._ask(whole, path), self._ask(whole, path, "HEAD")]
            seen = self._ask(whole, path, headers={_HEADER: _ALL})
            sent: list[dict[str, str]] = [{"If-None-Match": text} for text in _CONDITIONS]
            if etag := seen.headers.get("etag"):
                sent.append({"If-None-Match": etag})
            sent.append({"Range": "bytes=0-9"})
            answers += [self._ask(whole, path, headers=one) for one in sent]
            answers.append(self._ask(whole, path, "OPTIONS"))
            for answer in answers:
                _check_unnamed(answer, hidden, is_asked=hidden in path)
                if hidden in path and seen.status == 200:
                    same = answer.body == seen.body and bool(answer.body)
                    assert not same, f"{answer.request} shows a hidden layer"
            if without is None:
                continue
            known = [self._ask(without, path), self._ask(without, path, "HEAD")]
            known += [self._ask(without, path, headers=one) for one in sent]
            known.append(self._ask(without, path, "OPTIONS"))
            for answer, other in zip(answers, known, strict=True):
                _check_same(answer, other)

    # The addresses are found first: what a client has posted may be unknown to the others.
    @pytest.mark.usefixtures("addresses")
    def test_a_hidden_layer_cannot_be_posted(self, views: Views) -> None:
        if not self.posts:
            pytest.skip("not declared: posts")
        whole, without = views
        hidden = self.hidden_layer or self.layer or ""
        for path, media_type, body in self.posts:
            headers = {"Content-Type": media_type}
            seen = self._ask(whole, path, "POST", {**headers, _HEADER: _ALL}, body)
            assert seen.status < 300, f"{seen.request}: {seen.status} {seen.body[:200]!r}"
            answer = self._ask(whole, path, "POST", headers, body)
            assert 400 <= answer.status < 500, f"{answer.request} takes a hidden layer"
            _check_unnamed(answer, hidden, is_asked=hidden.encode() in body)
            if without is not None:
                _check_same(answer, self._ask(without, path, "POST", headers, body))

    def test_a_locked_layer_gives_no_data(self, views: Views, addresses: Sequence[str]) -> None:
        whole, _ = views
        for path in addresses:
            seen = self._ask(whole, path, headers={_HEADER: _ALL})
            answer = self._ask(whole, path, headers={_HEADER: _LOCKED})
            if seen.status != 200 or answer.status in (401, 403):
                continue
            described = answer.status == 200 and is_text(answer.media_type)
            # A service that ignores the error of the reader answers something else than the data.
            assert described or answer.body == seen.body, (
                f"{answer.request}: {answer.status} for a locked layer, not 401 or 403: "
                f"{answer.body[:200]!r}"
            )
            assert answer.status < 500, f"{answer.request}: {answer.status}"

    def test_a_layer_without_abilities_is_not_published(self, views: Views) -> None:
        whole, _ = views
        hidden = self.hidden_layer or self.layer or ""
        if not set(self.service_class.abilities) - _WITHOUT_LAYERS:
            pytest.skip("not declared: abilities")
        for path in (*self.paths, *self.doors):
            answer = self._ask(whole, path, headers={_HEADER: _WITHHELD})
            if hidden in path:
                seen = self._ask(whole, path, headers={_HEADER: _ALL})
                is_same = answer.status == 200 and answer.body == seen.body
                assert not is_same, f"{answer.request} shows a layer without abilities"
            _check_unnamed(answer, hidden, is_asked=hidden in path)

    def test_addresses_contain_the_credential(self, views: Views) -> None:
        whole, _ = views
        for path in self.paths:
            answer = self._ask(whole, f"/~{_ALL}{path}")
            service = whole.site.services[self.service_class.name]
            if not service.takes_credential_at(path):
                assert answer.status == 404, f"{answer.request}: {answer.status}"
                continue
            assert answer.status < 400, f"{answer.request}: {answer.status}"
            text = " ".join(answer.headers.values())
            if is_text(answer.media_type):
                text += answer.body.decode()
            for address in _ADDRESS.findall(text):
                below = address.removeprefix(PUBLIC_URL)
                assert below.startswith(f"/~{_ALL}"), (
                    f"{answer.request} contains {address} without the credential"
                )


def _linked(answer: Answer) -> list[str]:
    """Return the addresses below the service in an answer."""
    if answer.status != 200 or not is_text(answer.media_type):
        return []
    text = html.unescape(answer.body.decode("utf-8", "replace"))
    found = (address.removeprefix(PUBLIC_URL) for address in _ADDRESS.findall(text))
    return [path for path in found if path.startswith(("/", "?")) and "{" not in path]


def _check_unnamed(answer: Answer, hidden: str, *, is_asked: bool) -> None:
    text = answer.body + " ".join(answer.headers.values()).encode("utf-8", "replace")
    assert HIDDEN_TITLE.encode() not in text, f"{answer.request} shows the title of a hidden layer"
    assert is_asked or hidden.encode() not in text, f"{answer.request} names a hidden layer"


def _check_same(answer: Answer, other: Answer) -> None:
    what = f"{answer.request}: a hidden layer differs from one that never existed"
    assert answer.status == other.status, f"{what}: {answer.status}, not {other.status}"
    assert answer.body == other.body, f"{what}: {_difference(answer.body, other.body)}"
    given, known = dict(answer.headers), dict(other.headers)
    assert given == known, f"{what}: {given}, not {known}"


def _difference(one: bytes, other: bytes) -> str:
    at = next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), 0)
    start = max(0, at - 40)
    return f"{one[start : at + 80]!r}, not {other[start : at + 80]!r}"
