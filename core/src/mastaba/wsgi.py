"""Mastaba for any WSGI server: ``mastaba.wsgi:application``.

The attribute ``application`` is created on first access, from the server.json that the
environment variable ``MASTABA_SERVER`` names; `create_application` takes the path instead.
Listening, processes, threads and logs are then managed by the WSGI server.
"""

from __future__ import annotations

import atexit
import os
from typing import TYPE_CHECKING, Any

from mastaba.config.server import load_server
from mastaba.plugins.manager import Plugins
from mastaba.site.application import Application
from mastaba.site.loading import log_broken, log_findings, open_site
from mastaba.site.updates import SiteUpdates
from mastaba_documents.faults import Faults
from mastaba_server.processes.scoreboard import Scoreboard
from mastaba_storage.environment import Environment

if TYPE_CHECKING:
    application: Application


def create_application(server_json: str, plugins: Plugins | None = None) -> Application:
    """Return the WSGI application of a configuration.

    Args:
        server_json: path of server.json.
        plugins: None for the installed ones, without those that are broken.

    Raises:
        ConfigurationError: the configuration cannot be used; contains all errors.
        PluginError: the configuration needs a plugin that cannot be used, a middleware fails, or
            the choice of plugins cannot be followed.
    """
    plugins = plugins or Plugins(tolerant=True)
    plugins.require_choice()
    faults = Faults()
    log_broken(plugins)
    server = load_server(server_json, plugins, faults)
    scoreboard = Scoreboard(1, server.threads)
    scoreboard.bind_worker(0)
    site = open_site(server, plugins, scoreboard, faults)
    log_findings(site, faults)
    application = Application(site)
    # Changes apply to this process only: other processes are unknown here.
    SiteUpdates(application, server, plugins)
    return application


def __getattr__(name: str) -> Any:
    if name != "application":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    path = Environment().text("SERVER")
    if not path:
        raise RuntimeError("set MASTABA_SERVER to the path of server.json")
    made = globals()["application"] = create_application(path)
    # The server that imports this may fork afterwards.
    made.site.start_services()
    os.register_at_fork(after_in_child=lambda: made.site.start_services())
    atexit.register(lambda: made.site.close_services())
    return made
