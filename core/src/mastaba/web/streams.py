"""The number of long bodies that a process sends at a time."""

from __future__ import annotations

from mastaba.errors import OverloadedError
from mastaba_server.web.addressable import StreamCount


class Streams(StreamCount):
    """Counts the long bodies that a process is sending. `take` raises `OverloadedError`."""

    def refusal(self) -> OverloadedError:
        return OverloadedError("too many downloads are running", retry_after=30)
