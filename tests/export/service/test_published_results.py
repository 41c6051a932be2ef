"""Results that an object store publishes: only those that everybody may have."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.export.service.conftest import Exports
from tests.export.service.test_remote_results import LAYER, Bucket, BucketPlugin, bucket
from tests.export.service.test_rules import DEEP, DEFAULT, SCALE, Ruled

from mastaba.errors import ConfigurationError, StorageUnavailableError
from mastaba.plugins.manager import Plugins

__all__ = ["bucket"]

PUBLIC = "https://results.example/maps"
SETTINGS = {"results": "bucket://ours/results", "results_url": f"{PUBLIC}/"}


@pytest.fixture
def plugins(bucket: Bucket) -> Plugins:
    return Plugins(extra={"bucket": BucketPlugin()})


@pytest.fixture
def ruled(tmp_path: Path, open_exports: Callable[..., Exports], plugins: Plugins) -> Ruled:
    return Ruled(tmp_path, open_exports, plugins, **SETTINGS)


def run(exports: Exports) -> None:
    while exports.worker.run_one():
        pass


def href(exports: Exports, job: str, **headers: str) -> str:
    answer = exports.client.get(f"{job}/results", headers=headers)
    return str(answer.get_json()["result"]["href"])


def keys(bucket: Bucket, job: str) -> list[str]:
    return list(bucket.list(f"results/{job[-32:]}/"))


def test_links_lead_to_the_store(
    open_exports: Callable[..., Exports], plugins: Plugins, bucket: Bucket
) -> None:
    exports = open_exports(plugins, **SETTINGS)
    job = exports.done(LAYER)
    name = f"{job[-32:]}/RGB_PNG.pmtiles"
    assert keys(bucket, job) == [f"results/{name}"]
    assert href(exports, job) == f"{PUBLIC}/{name}"
    page = exports.client.get(f"{job}/results", query_string={"f": "html"}).text
    assert f'href="{PUBLIC}/{name}"' in page
    served = exports.client.get(f"{job}/files/RGB_PNG.pmtiles")
    assert served.data == bucket.read(f"results/{name}").data


def test_links_lead_to_the_server_again_without_the_setting(
    open_exports: Callable[..., Exports], plugins: Plugins, tmp_path: Path
) -> None:
    directory = str(tmp_path / "queue")
    before = open_exports(plugins, export_directory=directory, **SETTINGS)
    job = before.done(LAYER)
    after = open_exports(plugins, export_directory=directory, results=SETTINGS["results"])
    assert after.client.get(after.file(job)).data.startswith(b"PMTiles")
    older = after.done(LAYER)
    # It was an object of a container that was not published then.
    again = open_exports(plugins, export_directory=directory, **SETTINGS)
    assert href(again, older).startswith("http://maps.example/export/jobs/")
    assert again.client.get(again.file(older)).data.startswith(b"PMTiles")


HIDING: tuple[Any, ...] = (
    [{"deny": {}}],
    [{"deny": {"as": "lock"}}],
    [{"what": {"services": ["export"]}, "deny": {}}],
    [{"what": {"services": ["export"]}, "deny": {"as": "lock"}}],
    [SCALE],
)


@pytest.mark.parametrize("hiding", HIDING)
@pytest.mark.parametrize("who", ["group:partners", "address:192.0.2.0/24"])
def test_what_not_everybody_may_have_is_a_file(
    ruled: Ruled, bucket: Bucket, hiding: Any, who: str
) -> None:
    key = ruled.credentials.key(groups=["partners"])
    ruled.change({"who": [who], "allow": {}}, *hiding)
    knows = {"headers": {"X-API-Key": key}} if who.startswith("group") else {}
    inside = {"environ_base": {"REMOTE_ADDR": "192.0.2.7"}, **knows}
    job = ruled.ordered(DEEP, **inside)
    run(ruled.exports)
    assert keys(bucket, job) == []
    found = ruled.ask(f"{job}/results", **inside).get_json()["result"]["href"]
    file = found.removeprefix("http://localhost")
    assert file.startswith("/export/jobs/")
    answer = ruled.ask(file, **inside)
    assert answer.status_code == 200
    assert len(answer.data) == answer.content_length
    assert ruled.ask(file).status_code in (401, 404)


def test_what_belongs_to_a_principal_is_a_file(ruled: Ruled, bucket: Bucket) -> None:
    headers = {"X-API-Key": ruled.credentials.key()}
    jobs = [ruled.ordered(DEFAULT, headers=headers), ruled.ordered(DEFAULT)]
    run(ruled.exports)
    assert [len(keys(bucket, job)) for job in jobs] == [0, 1]
    assert href(ruled.exports, jobs[1]).startswith(PUBLIC)
    file = href(ruled.exports, jobs[0], **headers).removeprefix("http://localhost")
    assert file.startswith("/export/jobs/")
    assert ruled.ask(file, headers=headers).status_code == 200
    assert ruled.ask(file).status_code == 404
    assert ruled.exports.client.delete(jobs[0], headers=headers).status_code == 200
    # A worker removes it, as it does with objects.
    ruled.exports.worker._cleaned = float("-inf")
    run(ruled.exports)
    assert jobs[0][-32:] not in ruled.exports.results_left()


def test_private_files_are_removed_while_the_store_does_not_answer(
    ruled: Ruled, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    headers = {"X-API-Key": ruled.credentials.key()}
    job = ruled.ordered(DEFAULT, headers=headers)
    run(ruled.exports)
    folder = Path(ruled.exports.settings.directory, "jobs", job[-32:])
    assert len(list(folder.iterdir())) > 1
    assert ruled.exports.client.delete(job, headers=headers).status_code == 200

    def fail(storage: Bucket, prefix: str) -> Any:
        raise StorageUnavailableError("the store does not answer")

    with monkeypatch.context() as silent:
        silent.setattr(Bucket, "list", fail)
        ruled.exports.worker._cleaned = float("-inf")
        run(ruled.exports)
        assert [one.name for one in folder.iterdir()] == ["lock"]
    # The next time, the rest.
    ruled.exports.worker._cleaned = float("-inf")
    run(ruled.exports)
    assert not folder.exists()


def test_links_are_not_given_to_those_from_whom_the_layer_is_hidden_later(
    ruled: Ruled, bucket: Bucket
) -> None:
    job = ruled.ordered(DEFAULT)
    run(ruled.exports)
    assert href(ruled.exports, job).startswith(PUBLIC)
    ruled.change({"deny": {}, "what": {"layers": ["ORTHO"]}})
    assert ruled.ask(f"{job}/results").status_code == 404


def test_published_results_need_no_room_on_the_disk(
    ruled: Ruled, monkeypatch: pytest.MonkeyPatch
) -> None:
    headers = {"X-API-Key": ruled.credentials.key()}
    expected: list[int] = []
    monkeypatch.setattr(
        "mastaba_export.service.orders.check_room", lambda _, size: expected.append(size)
    )
    for more in ({}, {"headers": headers}):
        ruled.ordered({**DEFAULT, "format": "pmtiles"}, **more)
    assert expected[0] == 0 < expected[1]


def test_files_cannot_be_published(open_exports: Callable[..., Exports]) -> None:
    with pytest.raises(ConfigurationError, match="results_url"):
        open_exports(results_url=PUBLIC)
