"""The command line in forked processes: without the start of an interpreter, which costs most."""

from __future__ import annotations

import gc
import logging
import os
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NoReturn

from mastaba_server.threads import mounts

USUALLY_COLLECTED_AFTER = gc.get_threshold()
"""Thresholds of Python: modules are imported before tests/conftest.py sets others for tests."""


class Mastaba(subprocess.Popen[str]):
    """A running ``mastaba`` command.

    Its standard streams, working directory and environment are its own, as in a new process. Only
    modules and their caches come from the process of the tests.

    Args:
        arguments: of the command.
        variables: environment variables to add. Those for servers are not inherited.
        options: of `subprocess.Popen`.
    """

    def __init__(
        self, *arguments: str, variables: Mapping[str, str] | None = None, **options: Any
    ) -> None:
        # The library of servers, whose tests fork too, works without the core.
        from mastaba.commands.main import main

        def prepare() -> None:
            # Also the pipe with which Popen waits for the start of the program.
            give_up_descriptors()
            become_new(variables or {})

        # Called in the child; the program is never started.
        run_main = partial(exit_with, partial(main, arguments), prepare)
        super().__init__(["mastaba", *arguments], preexec_fn=run_main, text=True, **options)


def run(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a ``mastaba`` command to its end, without standard input."""
    with Mastaba(
        *arguments,
        variables=variables,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        output, errors = process.communicate()
    return subprocess.CompletedProcess(arguments, process.returncode, output, errors)


def exit_with(function: Callable[[], int], prepare: Callable[[], object]) -> NoReturn:
    """Exit from a process that has just been forked, with the status that a function returns."""
    status = 1
    try:
        prepare()
        status = function()
    except SystemExit as error:
        status = error.code if isinstance(error.code, int) else 1
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def give_up_descriptors() -> None:
    """Close the descriptors of a forked process, but keep their numbers taken.

    Objects of the parent still have the numbers, and may close them at any time: PROJ closes its
    database when it is used first after a fork. A new socket must not have such a number.
    """
    nowhere = os.open(os.devnull, os.O_RDWR)
    for number in map(int, os.listdir("/proc/self/fd")):
        if number > 2 and number != nowhere:
            os.dup2(nowhere, number, inheritable=False)
    os.close(nowhere)


def become_new(variables: Mapping[str, str]) -> None:
    """Give up what a forked process has from the one that forked it."""
    # Collections would copy the memory that both processes share.
    gc.freeze()
    # What the tests have left is not garbage of this process, which may collect its own.
    gc.unfreeze = lambda: None
    gc.set_threshold(*USUALLY_COLLECTED_AFTER)
    sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w")  # noqa: SIM115
    # A file system may have been mounted since, in the same second.
    mounts._mounts.cache_clear()
    sys.unraisablehook, threading.excepthook = sys.__unraisablehook__, threading.__excepthook__
    logging.root.handlers.clear()
    warnings.resetwarnings()
    warnings.simplefilter("ignore")
    for name in [name for name in os.environ if name.startswith(("MASTABA", "ROK4"))]:
        del os.environ[name]
    os.environ.update(variables)
