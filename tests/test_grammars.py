"""Numbers and times of clients and files are read by one grammar each."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from lxml import etree
from tests.sources import parsed, walked

from mastaba.errors import InvalidParameterError
from mastaba_build.errors import PlanError
from mastaba_build.harvest import client, wms, wmts
from mastaba_server.web.parameters import decimal, integer, whole_number

REPOSITORY = Path(__file__).parents[1]

DIGITS = frozenset({"isdigit", "isdecimal", "isnumeric"})
"""Methods of texts that accept digits of other scripts; ``int("²")`` then fails."""

# module: why it tests digits itself
READS_DIGITS = {
    "mastaba/site/tile_table.py": "the table of stored tiles; published.py reads the numbers",
    "mastaba/tiles/published.py": "indices of any length are numbers, but outside every matrix",
    "mastaba_server/transport/listener.py": "ports and numbers of the service manager",
    "mastaba_server/processes/notify.py": "numbers of the service manager",
    "mastaba_server/web/request.py": "Content-Length may be longer than numbers of parameters",
    "mastaba_server/web/parameters.py": "the grammar",
    "mastaba_server/transport/fastcgi/connection.py": "Content-Length of responses of our own",
    "mastaba_ows/offers.py": "names of zooms",
    "mastaba_ogcapi/registered.py": "names of zooms",
    "mastaba_ogcapi/tilesets.py": "names of zooms",
    "mastaba_viewer/snippets/offer.py": "names of zooms",
    "mastaba_render/encoding/geotiff.py": "codes of EPSG",
    "mastaba_export/writers/geopackage.py": "codes of EPSG",
    "mastaba_doctor/addresses.py": "ports",
    "mastaba_doctor/commands/__init__.py": "indices of tiles, of ten digits",
    "mastaba_elevation/facades/tileserver.py": "whether a place is a tile or a point",
    "mastaba_usage/addresses.py": "whether an address is that of a tile",
    "mastaba_conformance/services/table.py": "addresses of the kit",
    "mastaba_storage_s3/storage.py": "codes of errors",
    "mastaba_cog/directories.py": "a text of fixed form",
    "mastaba_build/harvest/wmts.py": "sizes of matrices, of ten digits",
    "mastaba_build/output/packs.py": "names of files",
    "mastaba_coverage/answer.py": "names of levels",
    "mastaba_build/vector/formats.py": "names of folders",
    "mastaba_build/vector/directory.py": "names of folders",
    "mastaba_build/pyramid/history.py": "names of levels",
}

# module: why it does not use `mastaba_documents.times`
READS_TIMES = {
    "mastaba_http/storage.py": "Last-Modified",
    "mastaba_build/harvest/client.py": "Retry-After",
    "mastaba_history/instants.py": "Accept-Datetime",
    "mastaba_history/records.py": "instants that we have written",
    "mastaba_elevation/edr/api.py": "instants that we have written",
    "mastaba_usage/front_logs.py": "dates of logs",
    "mastaba_usage/page.py": "dates that were checked",
    "mastaba_usage/reading.py": "dates that were checked",
}


def users(names: frozenset[str]) -> set[str]:
    """Return the modules that call one of these methods."""
    return {
        str(path).partition("/src/")[2]
        for name in ("core", "libs", "plugins")
        for path in (REPOSITORY / name).glob("**/src/**/*.py")
        for node in walked(parsed(path))
        if isinstance(node, ast.Attribute | ast.Name)
        and (node.attr if isinstance(node, ast.Attribute) else node.id) in names
    }


def test_digits_are_read_by_one_grammar() -> None:
    assert users(DIGITS) == READS_DIGITS.keys()


def test_times_are_read_by_one_grammar() -> None:
    names = frozenset({"fromisoformat", "strptime", "parsedate_to_datetime"})
    assert users(names) == READS_TIMES.keys()


@pytest.mark.parametrize("text", ["１２", "²", "１e5", "٣", "1_0", "", "-", "0x1"])
def test_other_digits_are_not_numbers(text: str) -> None:
    assert whole_number(text) is None
    assert decimal(text) is None
    with pytest.raises(InvalidParameterError, match="offset must be an integer from 0 to 9"):
        integer(text, "offset", 0, 9)


def test_integers_have_limits() -> None:
    assert [integer(text, "pad", 1, 9) for text in ("1", "009")] == [1, 9]
    for text in ("0", "10"):
        with pytest.raises(InvalidParameterError) as caught:
            integer(text, "pad", 1, 9)
        assert caught.value.parameter == "pad"


@pytest.mark.parametrize("text", ["9" * 5000, "１", "²"])
def test_numbers_of_other_servers_are_not_trusted(text: str) -> None:
    capabilities = etree.fromstring(
        f"<C><Service><LayerLimit>{text}</LayerLimit></Service><M>{text}</M></C>".encode()
    )
    assert wms._number(capabilities, "LayerLimit") == wms._UNLIMITED
    with pytest.raises(PlanError, match="the capabilities contain"):
        wmts._whole(capabilities, "M")
    assert client._wait_of(text) == 0.0
