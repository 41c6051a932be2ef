"""``mastaba -f server.json --http HOST:PORT`` on other systems than Linux, for development.

One process with the threads of Werkzeug's server, without workers, reloads and FastCGI.
"""

from __future__ import annotations

import argparse
import contextlib
import logging

from werkzeug.serving import make_server

from mastaba.commands.output import failed
from mastaba.config.server import load_server
from mastaba.errors import ConfigurationError
from mastaba.site.logs import configure_logging
from mastaba.wsgi import create_application
from mastaba_documents.faults import Faults
from mastaba_server.transport.listener import host_and_port

logger = logging.getLogger("mastaba")


def run(arguments: argparse.Namespace) -> int:
    """Serve until the process is interrupted; return the exit status."""
    try:
        host, port = host_and_port(arguments.http or "")
    except ValueError:
        return failed(
            "worker processes, FastCGI and Unix sockets need Linux; for development, serve HTTP: "
            "--http 127.0.0.1:8080"
        )
    try:
        configure_logging(load_server(arguments.file, arguments.plugins, Faults()))
        application = create_application(arguments.file, arguments.plugins)
    except ConfigurationError as error:
        return failed(*error.faults)
    # Mastaba has access lines of its own.
    logging.getLogger("werkzeug").setLevel(logging.WARNING)
    with make_server(host, port, application, threaded=True) as server:
        application.site.start_services()
        logger.warning("for development only, on http://%s:%d/", host, server.port)
        with contextlib.suppress(KeyboardInterrupt):
            server.serve_forever()
        application.site.close_services()
    return 0
