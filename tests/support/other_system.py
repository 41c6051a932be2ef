"""Runs ``mastaba`` without what only Linux has, and without the renderer.

usage: python other_system.py SYSTEM ARGUMENT…
"""

import os
import select
import socket
import sys

# These decide by the platform what they import.
import jsonschema_rs
import numpy
import pyproj
import werkzeug.serving

__all__ = ["jsonschema_rs", "numpy", "pyproj", "werkzeug"]

OS = ("EFD_", "eventfd", "memfd_", "pidfd_", "pipe2", "posix_fadvise", "sched_", "sendfile")
SOCKET = (
    *("MSG_CMSG_CLOEXEC", "MSG_MORE"),
    *("SO_PEERCRED", "SOCK_CLOEXEC", "SOCK_NONBLOCK", "SOCK_SEQPACKET"),
)
MISSING = {
    os: OS,
    select: ("EPOLL", "epoll"),
    socket: (*SOCKET, "TCP_KEEPIDLE", "TCP_USER_TIMEOUT"),
}

for module, prefixes in MISSING.items():
    for name in [name for name in dir(module) if name.startswith(prefixes)]:
        delattr(module, name)
sys.platform, *sys.argv = sys.argv[1], "mastaba", *sys.argv[2:]
sys.modules["mastaba_render"] = None  # type: ignore[assignment]

from mastaba.commands.main import main  # noqa: E402 - after the changes above

sys.exit(main())
