"""A process that reads for a process in which obstore must not run."""

import os
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

from mastaba.errors import StorageError
from mastaba_storage_obstore import reads


class Helper:
    """A new interpreter, which exits when its connection is closed."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            command = [sys.executable, "-P", "-m", __name__]
            # Of its own session: Ctrl-C is for the server.
            self._process = subprocess.Popen(command, stdin=theirs.fileno(), start_new_session=True)
        self._connection = Connection(ours.detach())
        self._lock = threading.Lock()

    def call(self, name: str, *arguments: object) -> Any:
        """Return the result of a function of `reads`.

        Raises:
            StorageError: the function raises it.
            OSError, EOFError: the process has died.
        """
        with self._lock:
            self._connection.send((name, arguments))
            result = self._connection.recv()
        if isinstance(result, StorageError):
            raise result
        return result

    def __del__(self) -> None:
        # A process forked in the meantime may hold the connection open, so closing it is not
        # enough: a thread that collects garbage would wait here for that process.
        self._connection.close()
        self._process.kill()
        self._process.wait()


def main() -> None:
    connection = Connection(0)
    # The end of the connection is the end of the process that needs the helper.
    with suppress(EOFError, OSError):
        while True:
            name, arguments = connection.recv()
            try:
                result = getattr(reads, name)(*arguments)
            except StorageError as error:
                result = error
            connection.send(result)
    os._exit(0)  # without waiting for obstore's threads


if __name__ == "__main__":
    main()
