"""A client that reads whole answers."""

from __future__ import annotations

from typing import Any

from werkzeug.test import Client, TestResponse


class Reader(Client):
    """A client that reads each answer to its end."""

    def open(self, *args: Any, **options: Any) -> TestResponse:
        return super().open(*args, buffered=options.pop("buffered", True), **options)
