"""Lists of stores that fail now and then."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mastaba.api.storages import Environment
from mastaba.errors import StorageUnavailableError
from mastaba_build.errors import OutputError
from mastaba_build.output.storage import FileWriter, OutputStore
from mastaba_http import Listed, Pages


class Failing(FileWriter):
    """Fails before some pages of a list, or for ever."""

    def __init__(self, failures: int, *, is_generator: bool = False) -> None:
        super().__init__()
        self._left = failures
        self._is_generator = is_generator

    def list_versions(self, prefix: str) -> Iterator[Listed]:
        pages = Pages(self._page, RuntimeError)
        return (one for one in pages) if self._is_generator else pages

    def _page(self, token: str) -> tuple[list[Listed], str]:
        if token and self._left:
            self._left -= 1
            raise StorageUnavailableError("the response is 503")
        number = int(token or 0)
        return [(f"{number}", None)], f"{number + 1}" if number < 3 else ""


def listed(storage: FileWriter) -> list[str]:
    environment = Environment({"MASTABA_OBJECT_ATTEMPTS_WAIT": "0"})
    return list(OutputStore(storage, "", environment).list(""))


def test_a_page_that_fails_is_asked_for_again() -> None:
    assert listed(Failing(2)) == ["0", "1", "2", "3"]


@pytest.mark.parametrize("storage", [Failing(3), Failing(1, is_generator=True)])
def test_a_list_that_is_not_complete_is_an_error(storage: FileWriter) -> None:
    """A generator has ended with its error: another attempt would find no more keys."""
    with pytest.raises(OutputError, match="503"):
        listed(storage)
