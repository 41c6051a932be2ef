"""Fixtures and rules for all tests; fixtures of one distribution are in its own folder."""

from __future__ import annotations

import faulthandler
import gc
import importlib.metadata
import json
import os
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
from tests.forked import USUALLY_COLLECTED_AFTER
from tests.live.browsers import CHROMIUM, launched
from tests.live.network import unchanged_network
from tests.sizes import sized
from tests.support.lzw import lzw_by_library
from tests.support.sampling import mark_unsampled
from tests.support.slow import Recorder, mark_slow
from tests.tiny import changed_slabs, folders, tiny_installation
from werkzeug.test import Client

from mastaba.plugins import discovery
from mastaba.plugins.manager import Plugins
from mastaba.site.application import Application
from mastaba.wsgi import create_application
from mastaba_conformance.serving import serving_installation
from mastaba_documents.validation import DocumentValidator

REPOSITORY = Path(__file__).parents[1]

OpenClient = Callable[[Path], Client]
Serving = Callable[[Callable[[str], Path]], AbstractContextManager[str]]

LIVE_TIMEOUT = 600
"""Seconds for a live test with its fixtures; pyproject.toml has the limit of the others."""

HANGS = 720.0
"""Seconds after which a process of tests that does not react to its time limit is ended."""

MOST_SKIPPED_IN_CI = 12
"""More skipped tests fail a run in CI: something is not installed there."""

SAMPLED_OF_THE_KIT = {
    "test_failing_storage_is_a_server_error": 3,
    "test_keys_are_used_unchanged": 4,
    "test_similar_key_is_another_object": 4,
}
"""Tests of the conformance kit: of so many cases of each distribution, one is quick."""

QUICK_IN_ONE_CLASS = {
    "test_many_threads": "TestTMSService",
    "test_strings_in_paths_and_parameters": "TestWMTSService",
}
"""Tests of the kit that send many requests: they are quick for one service."""

COLLECTED_AFTER = (50_000, 20, 50)
"""Thresholds of the garbage collector. With those of Python, it takes a twentieth of the time."""

DOCUMENTED_PORTS = (8000, 8080, 8123, 9000, 9999)
"""Ports of the documentation and of default settings. No test may need one of them free."""

OUR_VARIABLES = ("MASTABA", "ROK4")
"""How the names of our environment variables begin."""

# jsonschema imports it if it is installed. It compiles its grammars then, which takes more than two
# seconds in each process, and no test checks the form of an IRI.
sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]

_taken: list[socket.socket] = []

_armed = -HANGS
"""When the timer that ends this process was started, in seconds."""

_standard_error = -1
"""The standard error of this process, also while pytest captures that of a test."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--most-skipped",
        type=int,
        default=MOST_SKIPPED_IN_CI if os.environ.get("CI") else None,
        help="fail when more tests are skipped; in CI %(default)s by default",
    )

    parser.addoption(
        "--random-requests",
        type=int,
        default=sized(2_500, 20_000),
        help="number of random requests in live tests of the tile table and of elevation"
        " (%(default)s)",
    )
    parser.addoption(
        "--record-slow",
        action="store_true",
        help="write the list of the tests that are too slow for make test: tests/slow.txt",
    )


def pytest_itemcollected(item: pytest.Item) -> None:
    # The classes of the conformance kit are public: their tests have no marks of this workspace.
    group, name = getattr(item, "cls", None), getattr(item, "originalname", None)
    if name in getattr(group, "thorough", ()) or name not in getattr(group, "quick", (name,)):
        item.add_marker(pytest.mark.thorough)
    if group is not None and QUICK_IN_ONE_CLASS.get(name, group.__name__) != group.__name__:
        item.add_marker(pytest.mark.thorough)
    if name in SAMPLED_OF_THE_KIT:
        item.add_marker(pytest.mark.sampled(one_in=SAMPLED_OF_THE_KIT[name]))


class _FromTheEnd(pytest.Dir):
    def collect(self) -> list[pytest.Item | pytest.Collector]:
        return list(super().collect())[::-1]


def pytest_collect_directory(path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    # Rewriting the assertions of all modules takes half of the first collection. Of two workers of
    # pytest-xdist, one begins at the end: each finds the modules that the other one has rewritten.
    if not _number_of_worker(parent.config) % 2 or (path / "__init__.py").exists():
        return None
    collector: pytest.Collector = _FromTheEnd.from_parent(parent, path=path)
    return collector


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if _is_worker(config):
        items.sort(key=lambda item: item.path)
    # First, because -m selects by these marks.
    if not config.getoption("record_slow"):
        mark_slow(items)
    mark_unsampled(items)
    for item in items:
        if item.get_closest_marker("live") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(LIVE_TIMEOUT))


def pytest_configure(config: pytest.Config) -> None:
    global _standard_error
    if config.getoption("record_slow") and not _is_worker(config):
        config.pluginmanager.register(Recorder())
    assert sys.__stderr__ is not None
    _standard_error = os.dup(sys.__stderr__.fileno())


def pytest_sessionstart(session: pytest.Session) -> None:
    if _is_worker(session.config):
        return
    for port in DOCUMENTED_PORTS:
        # A port that another program uses is not free either.
        with suppress(OSError):
            _taken.append(socket.create_server(("127.0.0.1", port)))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    # Nothing that a collection makes is garbage. Later collections need not look at it again.
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(*COLLECTED_AFTER)
        gc.enable()


def pytest_sessionfinish(session: pytest.Session) -> None:
    for taken in _taken:
        taken.close()
    if _too_many_skipped(session.config):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    if _too_many_skipped(config):
        terminalreporter.write_line(
            f"FAILED: {_skipped(terminalreporter)} tests were skipped, "
            f"and {config.getoption('most_skipped')} may be: install what they need",
            red=True,
        )


def pytest_runtest_protocol(item: pytest.Item) -> None:
    global _armed
    # With faulthandler_timeout, pytest starts a timer for every test. Each is a thread, which costs
    # more than a short test, most of all when other programs keep the processors busy.
    now = time.monotonic()
    marker = item.get_closest_marker("timeout")
    limit = HANGS if marker is None else max(HANGS, 2 * marker.args[0])
    if limit > HANGS or now - _armed > HANGS / 12:
        faulthandler.dump_traceback_later(limit, exit=True, file=_standard_error)
        # After a longer limit, the next test starts its own.
        _armed = now if limit == HANGS else -HANGS


@pytest.hookimpl(trylast=True)
def pytest_exception_interact() -> None:
    global _armed
    # pytest has stopped the timer.
    _armed = -HANGS


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    """Exit even when a test left a thread behind that does not."""
    # A worker of pytest-xdist waits for the others here, and is stopped by the main process.
    if not _is_worker(config):
        faulthandler.dump_traceback_later(60, exit=True)


def _is_worker(config: pytest.Config) -> bool:
    """Tell whether this is a process of pytest-xdist, whose reports go to another one."""
    return hasattr(config, "workerinput")


def _number_of_worker(config: pytest.Config) -> int:
    """Return the number of a process of pytest-xdist, and 0 for others."""
    name: str = getattr(config, "workerinput", {}).get("workerid", "gw0")
    return int(name.removeprefix("gw"))


def _too_many_skipped(config: pytest.Config) -> bool:
    most = config.getoption("most_skipped")
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if most is None or reporter is None or _is_worker(config):
        return False
    return _skipped(reporter) > int(most)


def _skipped(reporter: pytest.TerminalReporter) -> int:
    """Return the number of skipped tests. What a plugin does not declare is not missing."""
    reports = reporter.getreports("skipped")
    return sum("not declared:" not in str(report.longrepr) for report in reports)


@pytest.fixture
def usual_collections() -> Iterator[None]:
    """Collect garbage as often as a server does, for a test that measures its memory."""
    gc.set_threshold(*USUALLY_COLLECTED_AFTER)
    yield
    gc.set_threshold(*COLLECTED_AFTER)


@pytest.fixture(scope="session")
def repository() -> Path:
    """Return the root of the repository."""
    return REPOSITORY


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Return the folder of real pyramids, answers and schemas; skip without it."""
    folder = REPOSITORY.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip(f"the real pyramids are not beside the repository ({folder})")
    return folder


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the server.json of an installation with one layer per kind of pyramid."""
    return tiny_installation(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="session", autouse=True)
def _plugins_found_once() -> Iterator[None]:
    """Remember the installed plugins, except while a test has changed where they are searched."""
    search, path = importlib.metadata.entry_points, list(sys.path)
    find, found = discovery.installed, list(discovery.installed())

    def installed() -> Iterator[discovery.Source]:
        same = importlib.metadata.entry_points is search and sys.path == path
        return iter(found) if same else find()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mastaba.plugins.manager.installed", installed)
        yield


@pytest.fixture(scope="session", autouse=True)
def _plugins_loaded_once(_plugins_found_once: None) -> Iterator[None]:
    """Load equal plugins once: that takes half of the time in which an installation is opened."""
    search, path = importlib.metadata.entry_points, list(sys.path)

    @lru_cache(16)
    def load(_variables: frozenset[tuple[str, str]]) -> Plugins:
        plugins = Plugins(tolerant=True)
        plugins.require_all()
        return plugins

    def loaded(**options: Any) -> Plugins:
        found = {key: text for key, text in os.environ.items() if key.startswith(OUR_VARIABLES)}
        same = importlib.metadata.entry_points is search and sys.path == path
        # The files of a directory may have changed.
        has_files = any(key.endswith("_PLUGINS_DIR") for key in found)
        if same and options == {"tolerant": True} and not has_files:
            return load(frozenset(found.items()))
        return Plugins(**options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mastaba.wsgi.Plugins", loaded)
        yield


@pytest.fixture(scope="session", autouse=True)
def _schemas_compiled_once() -> Iterator[None]:
    """Compile equal schemas once: each installation that a test opens needs several of them."""
    compile_schema = DocumentValidator._use
    known: dict[str, tuple[Any, Any]] = {}

    def compiled(validator: DocumentValidator, schema: dict[str, Any]) -> None:
        text = json.dumps(schema)
        if text not in known:
            compile_schema(validator, schema)
            known[text] = validator._schema, validator._validator
        validator._schema, validator._validator = known[text]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DocumentValidator, "_use", compiled)
        yield


@pytest.fixture(scope="session", autouse=True)
def _lzw_by_library() -> Iterator[None]:
    with lzw_by_library():
        yield


@pytest.fixture(scope="session", autouse=True)
def _folder_of_slabs(tmp_path_factory: pytest.TempPathFactory) -> None:
    folders.append(tmp_path_factory.mktemp("tiny-slabs"))


@pytest.fixture(scope="module", autouse=True)
def _slabs_not_changed() -> Iterator[None]:
    """Fail after a module that changed the slabs that tests share."""
    yield
    assert changed_slabs() == []


@pytest.fixture(scope="session")
def client(tiny: Path, open_client: OpenClient) -> Client:
    """Return a client of the tiny installation, with every service that is installed."""
    return open_client(tiny)


@pytest.fixture(scope="session")
def opened_applications() -> list[Application]:
    """Return the applications that tests of this module have opened."""
    return []


@pytest.fixture(scope="module", autouse=True)
def _applications_closed(opened_applications: list[Application]) -> Iterator[None]:
    """Close the files of all applications after each module.

    Otherwise a process of tests has thousands of open files in the end. Applications of the whole
    session open theirs again.
    """
    yield
    while opened_applications:
        opened_applications.pop().site.catalogue.storages.close()


@pytest.fixture(scope="session")
def open_client(opened_applications: list[Application]) -> OpenClient:
    """Return a function that opens the installation of a server.json."""

    def open_it(server_json: Path) -> Client:
        application = create_application(str(server_json))
        opened_applications.append(application)
        return Client(application)

    return open_it


@pytest.fixture
def alps(shared_data: Path, monkeypatch: pytest.MonkeyPatch, open_client: OpenClient) -> Client:
    """Return a client of the real pyramids; their paths are relative to their folder."""
    monkeypatch.chdir(shared_data / "alps")
    return open_client(Path("conf/server.json"))


@pytest.fixture(autouse=True)
def _network_of_browser(request: pytest.FixtureRequest) -> Iterator[None]:
    with unchanged_network() if "browser" in request.fixturenames else nullcontext():
        yield


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Return Chromium with a software renderer for WebGL. One process can have only one."""
    if not CHROMIUM.exists():
        pytest.skip(f"{CHROMIUM} is not installed")
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as running:
        # Only WebGL is for the software renderer: it takes five times as long for the rest.
        unaccelerated = ("accelerated-2d-canvas", "gpu-compositing", "gpu-rasterization")
        opened = launched(running.chromium, *(f"--disable-{name}" for name in unaccelerated))
        yield opened
        opened.close()


@pytest.fixture(scope="session")
def serving() -> Serving:
    """Return a context manager that serves an installation over HTTP.

    It takes a function that writes the installation for a public address, and gives the address.
    """
    return serving_installation


@pytest.fixture
def gdal_environment(tmp_path: Path) -> dict[str, str]:
    """Return the environment of GDAL's commands: without a proxy, and with a temporary cache."""
    return {
        "PATH": "/usr/bin:/bin",
        "NO_PROXY": "127.0.0.1",
        "no_proxy": "127.0.0.1",
        "GDAL_DEFAULT_WMS_CACHE_PATH": str(tmp_path / "gdalwmscache"),
    }
