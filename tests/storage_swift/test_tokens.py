import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.storage_swift.conftest import OpenContainer

from mastaba.errors import AccessDeniedError, StorageError, StorageUnavailableError
from mastaba_conformance.object_server import ObjectServer
from mastaba_storage.environment import Environment
from mastaba_storage_swift.storage import SwiftStorage


def authentications(server: ObjectServer) -> int:
    return server.count("GET", "/auth/") + server.count("POST", "/v3/")


@pytest.fixture(autouse=True)
def _object(server: ObjectServer) -> None:
    server.put("maps", "k", b"data")


def test_one_token_serves_all_containers(
    server: ObjectServer, open_container: OpenContainer
) -> None:
    server.put("other", "k", b"other")
    assert open_container().read("k").data == b"data"
    assert open_container("other").read("k").data == b"other"
    assert authentications(server) == 1


def test_expired_token_is_replaced_once_and_the_request_is_repeated(
    server: ObjectServer, open_container: OpenContainer
) -> None:
    storage = open_container()
    storage.read("k")
    server.forget_tokens()
    server.requests.clear()
    assert storage.read("k").data == b"data"
    assert [request.status for request in server.requests] in ([401, 200, 200], [401, 201, 200])


@pytest.mark.thorough
def test_many_threads_with_an_expired_token_authenticate_once(
    server: ObjectServer, open_container: OpenContainer
) -> None:
    storage = open_container()
    server.faults.latency = 0.02
    for _ in range(3):
        server.forget_tokens()
        server.requests.clear()
        with ThreadPoolExecutor(16) as threads:
            assert all(threads.map(lambda _: storage.read("k").data == b"data", range(64)))
        assert authentications(server) == 1


def test_a_refused_container_does_not_cause_repeated_authentication(
    server: ObjectServer, open_container: OpenContainer
) -> None:
    storage = open_container()
    server.forced_status = 403
    for _ in range(5):
        with pytest.raises(AccessDeniedError, match="403"):
            storage.read("k")
    assert authentications(server) == 1


def test_a_token_that_the_server_never_accepts_is_an_error(
    server: ObjectServer, open_container: OpenContainer
) -> None:
    storage = open_container()
    server.forced_status = 401
    with pytest.raises(AccessDeniedError, match="401"):
        storage.read("k")
    assert authentications(server) == 2


@pytest.mark.parametrize("form", ["X-Auth-Token: {}\n", "{}", "x-auth-token:{}\n\n"])
def test_both_forms_of_the_token_file_are_accepted(
    server: ObjectServer, open_container: OpenContainer, tmp_path: Path, form: str
) -> None:
    token = open_container(SWIFT_TOKEN_FILE=str(tmp_path / "first"))._account.token()
    server.requests.clear()
    path = tmp_path / "token"
    path.write_text(form.format(token))
    assert open_container(SWIFT_TOKEN_FILE=str(path)).read("k").data == b"data"
    assert authentications(server) == 0


def test_a_stale_token_in_the_file_costs_one_authentication(
    server: ObjectServer, open_container: OpenContainer, tmp_path: Path
) -> None:
    path = tmp_path / "token"
    path.write_text("X-Auth-Token: AUTH_tkstale\n")
    assert open_container(SWIFT_TOKEN_FILE=str(path)).read("k").data == b"data"
    assert server.requests[0].status == 401
    assert authentications(server) == 1
    assert path.read_text() != "X-Auth-Token: AUTH_tkstale\n"


@pytest.mark.parametrize("content", ["", "\n", "X-Auth-Token: \n", "two words", "é"])
def test_a_file_without_a_valid_token_is_ignored(
    server: ObjectServer, open_container: OpenContainer, tmp_path: Path, content: str
) -> None:
    path = tmp_path / "token"
    path.write_text(content)
    assert open_container(SWIFT_TOKEN_FILE=str(path)).read("k").data == b"data"
    assert [request.status for request in server.requests].count(401) == 0


def test_the_token_is_written_as_a_header_line_readable_only_by_its_owner(
    open_container: OpenContainer, tmp_path: Path
) -> None:
    path = tmp_path / "token"
    path.write_text("")
    path.chmod(0o644)
    storage = open_container(SWIFT_TOKEN_FILE=str(path))
    assert path.read_text() == f"X-Auth-Token: {storage._account.token()}\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert os.listdir(tmp_path) == ["token"]


def test_an_unwritable_token_file_is_logged_and_does_no_harm(
    open_container: OpenContainer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "folder").mkdir()
    for path in (tmp_path / "no/such/token", tmp_path / "folder"):
        caplog.clear()
        storage = open_container(SWIFT_TOKEN_FILE=str(path))
        assert storage.read("k").data == b"data"
        logged = "\n".join(record.getMessage() for record in caplog.records)
        assert f"MASTABA_SWIFT_TOKEN_FILE: cannot write {path}" in logged
        assert storage._account.token() not in logged
    assert os.listdir(tmp_path) == ["folder"]


def test_an_invalid_password_is_reported_by_its_variable(open_container: OpenContainer) -> None:
    with pytest.raises(AccessDeniedError, match=r"access denied.*MASTABA_SWIFT_PASSWD") as caught:
        open_container(SWIFT_PASSWD="a-secret-that-must-not-be-shown")
    assert "must-not-be-shown" not in str(caught.value)


def test_a_url_that_returns_no_token_is_reported(
    server: ObjectServer, open_container: OpenContainer
) -> None:
    with pytest.raises(
        StorageError, match=r"nothing-here: (status|access denied).*check MASTABA_SWIFT_AUTHURL"
    ):
        open_container(SWIFT_AUTHURL=f"{server.url}/nothing-here")


def test_an_unreachable_authentication_server_is_reported(open_container: OpenContainer) -> None:
    with pytest.raises(StorageUnavailableError, match=r"127\.0\.0\.1:1/.*Connection refused"):
        open_container(SWIFT_AUTHURL="http://127.0.0.1:1/auth/v1.0")


NATIVE = {"SWIFT_USER": "u", "SWIFT_PASSWD": "p", "SWIFT_ACCOUNT": "a"}
KEYSTONE = {
    "SWIFT_USER": "u",
    "SWIFT_PASSWD": "p",
    "KEYSTONE_DOMAINID": "d",
    "KEYSTONE_PROJECTID": "i",
}


@pytest.mark.parametrize(
    ("variables", "missing"),
    [
        (NATIVE, "SWIFT_USER"),
        (NATIVE, "SWIFT_PASSWD"),
        (NATIVE, "SWIFT_ACCOUNT"),
        (KEYSTONE, "KEYSTONE_PROJECTID"),
        (KEYSTONE, "SWIFT_PASSWD"),
    ],
)
def test_a_missing_variable_is_reported_by_name(variables: dict[str, str], missing: str) -> None:
    for unset in ({missing: ""}, {}):
        given = {name: text for name, text in variables.items() if name != missing} | unset
        environment = Environment({f"ROK4_{name}": text for name, text in given.items()})
        with pytest.raises(AccessDeniedError, match=f"MASTABA_{missing} is not set"):
            SwiftStorage.open("maps", environment)
