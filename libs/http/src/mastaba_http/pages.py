"""Lists that a store sends in pages."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

Listed = tuple[str, str | None]
"""Key and version of an object; None for a version that is not listed."""


class Pages(Iterator[Listed]):
    """The objects of a list that comes in pages.

    An error does not end it, as it would end a generator: the next call asks for the page again.

    Args:
        ask: gets the token of a page, which is empty for the first one, and returns the page and
            the token of the next one, which is empty after the last one.
        endless: returns the error for a token that was there before.
    """

    def __init__(
        self,
        ask: Callable[[str], tuple[Iterable[Listed], str]],
        endless: Callable[[], Exception],
    ) -> None:
        self._ask = ask
        self._endless = endless
        self._page: Iterator[Listed] = iter(())
        self._token = ""
        self._seen: set[str] = set()
        self._is_last = False

    def __next__(self) -> Listed:
        while (found := next(self._page, None)) is None:
            if self._is_last:
                raise StopIteration
            page, token = self._ask(self._token)
            if token in self._seen:
                raise self._endless()
            self._seen.add(token)
            self._page, self._token, self._is_last = iter(page), token, not token
        return found
