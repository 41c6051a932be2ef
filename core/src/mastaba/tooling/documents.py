"""Loading of a whole configuration, and of its documents one by one."""

from mastaba.config.load import load_catalogue
from mastaba.config.schema import schema
from mastaba.config.server import ServerConfig, load_server, missing_port
from mastaba.config.source import Source
from mastaba.config.styles import make_style
from mastaba.config.tile_matrix_sets import make_tile_matrix_set
from mastaba_documents.reading import started_at, unreadable
from mastaba_documents.validation import did_you_mean
from mastaba_server.log.destination import LoggerConfig

__all__ = [
    "LoggerConfig",
    "ServerConfig",
    "Source",
    "did_you_mean",
    "load_catalogue",
    "load_server",
    "make_style",
    "make_tile_matrix_set",
    "missing_port",
    "schema",
    "started_at",
    "unreadable",
]
