"""Level *table*: what the server answers without the service is what the service would answer."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from urllib.parse import parse_qsl, quote, unquote

import pytest

from mastaba.api.services import Service
from mastaba.api.tiles import TileGroup, TilePaths, TileQueries
from mastaba.api.tools import Application
from mastaba.errors import MastabaError
from mastaba_conformance.services.kit import ServiceKit, quick_answer, send

_AROUND = 2
_PATH = re.compile(r"(.*)/([0-9]{1,9})/([0-9]{1,9})([^0-9/]*)")


class TableTests(ServiceKit):
    level = "table"

    def test_stored_tiles_are_answered_from_the_table(
        self, application: Application, service: Service
    ) -> None:
        forms = list(service.tile_addresses())
        if not forms:
            pytest.skip("not declared: tile_addresses")
        root = service.settings.root_path
        addresses = {
            address for path in self.paths for form in forms for address in _around(path, form)
        }
        assert addresses, "no request in paths is for a stored tile of tile_addresses"
        tiles = 0
        for address in sorted(addresses):
            # It compares the answer with that of the table, if that has one.
            answer = send(application, root + address)
            if answer.status != 200:
                continue
            tiles += 1
            assert quick_answer(application, root + address) is not None, (
                f"{answer.request}: tile_addresses describes this tile, but the table has no "
                "answer: see the order of the indices, endings and last_row of TileGroup"
            )
        assert tiles, "no request in paths is for a stored tile that exists"

    def test_constant_documents_are_made_without_headers(
        self, open_application: Callable[..., Application]
    ) -> None:
        application = open_application(self.settings, {})
        root = application.site.services[self.service_class.name].settings.root_path
        of_the_server = send(application, "/no/such/path").headers_read
        for path in self.paths:
            if quick_answer(application, root + path) is not None:
                continue  # a tile
            answer = send(application, root + path)
            if quick_answer(application, root + path) is None:
                continue
            read = answer.headers_read - of_the_server - _OF_DOCUMENTS
            assert not read, (
                f"{answer.request}: respond reads {', '.join(sorted(read))}, and then promises a "
                "document that depends on no header (is_constant of Document.respond)"
            )


_OF_DOCUMENTS = frozenset(("HTTP_ACCEPT_ENCODING", "HTTP_IF_NONE_MATCH"))
"""What `Document.respond` itself reads; the server does the same for documents that it keeps."""


def _around(path: str, form: TilePaths | TileQueries) -> Iterator[str]:
    """Yield the addresses of a tile and of its neighbours; nothing if it is not of this form."""
    path, _, query = path.partition("?")
    if isinstance(form, TilePaths):
        found = None if query else _PATH.fullmatch(unquote(path))
        group = found and _group(lambda: form.group(found[1]))
        if found and group and found[4] in group.endings:
            for first, second in _pairs(int(found[2]), int(found[3])):
                yield quote(f"{found[1]}/{first}/{second}{found[4]}")
        return
    parameters = {name.lower(): text for name, text in parse_qsl(query, keep_blank_values=True)}
    names = (form.row.lower(), form.column.lower())
    others = {name: text for name, text in parameters.items() if name not in names}
    if path or not all(parameters.get(name, "").isdigit() for name in names):
        return
    if _group(lambda: form.group(others)) is not None:
        start = "".join(f"{quote(name)}={quote(text)}&" for name, text in others.items())
        for row, column in _pairs(*(int(parameters[name]) for name in names)):
            yield f"?{start}{names[0]}={row}&{names[1]}={column}"


def _group(find: Callable[[], TileGroup | None]) -> TileGroup | None:
    try:
        return find()
    except MastabaError:
        return None


def _pairs(first: int, second: int) -> Sequence[tuple[int, int]]:
    steps = range(-_AROUND, _AROUND + 1)
    pairs = [(first + i, second + j) for i in steps for j in steps]
    return [pair for pair in pairs if min(pair) >= 0]
