"""``mastaba export-worker``: a process that runs the jobs of the service ``export``."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from mastaba.api.commands import add_server_json, failed
from mastaba.errors import MastabaError

if TYPE_CHECKING:
    from argparse import ArgumentParser, _SubParsersAction

    from mastaba.api.tools import Plugins
    from mastaba_export.jobs.job import Job, ResultFile
    from mastaba_export.jobs.settings import JobSettings
    from mastaba_export.jobs.worker import Perform, Report


def add_parser(subparsers: _SubParsersAction[ArgumentParser]) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "export-worker",
        help="run the jobs that clients order from the service export",
        description="Runs the jobs of the service export, one at a time, until SIGTERM. Start as "
        "many as jobs may run at the same time, on the machine of the server. The configuration is "
        "read for each job, the settings of the service only at the start.",
    )
    add_server_json(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run jobs; return the exit status."""
    from mastaba_export.jobs.exporting import remote_results
    from mastaba_export.jobs.queue import Queue
    from mastaba_export.jobs.settings import job_settings
    from mastaba_export.jobs.worker import Worker, be_modest, run_until_stopped
    from mastaba_export.opening import opened

    server_json, plugins = arguments.file, arguments.plugins
    try:
        with opened(server_json, plugins) as site:
            service = site.catalogue.services.get("export")
            if service is None:
                raise MastabaError("the service export is not enabled in services.json")
            settings = job_settings(service.own)
            remote = remote_results(site, settings)
    except MastabaError as error:
        return failed(error)
    be_modest(settings.memory)
    performing = _performing(server_json, plugins, settings)
    run_until_stopped(Worker(Queue(settings), performing, remote))
    return 0


def _performing(server_json: str, plugins: Plugins, settings: JobSettings) -> Perform:
    """Return what does a job with the configuration as it is then."""
    from mastaba_export.jobs.exporting import exporting
    from mastaba_export.opening import opened

    def perform(job: Job, folder: str, report: Report) -> Sequence[ResultFile]:
        with opened(server_json, plugins) as site:
            return list(exporting(site, settings)(job, folder, report))

    return perform
