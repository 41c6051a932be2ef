"""Configuration files: reading, validation, schemas, and reports of faults."""

from mastaba.config.documents import parse_document, read_local_text, started_at, unreadable
from mastaba.config.faults import Faults, FileFaults, UnusableError
from mastaba.config.load import load_catalogue
from mastaba.config.schema import did_you_mean, schema
from mastaba.config.server import LoggerConfig, ServerConfig, load_server, missing_port
from mastaba.config.source import Source
from mastaba.config.styles import make_style
from mastaba.config.tile_matrix_sets import make_tile_matrix_set
from mastaba.model.fault import Fault, Severity

__all__ = [
    "Fault",
    "Faults",
    "FileFaults",
    "LoggerConfig",
    "ServerConfig",
    "Severity",
    "Source",
    "UnusableError",
    "did_you_mean",
    "load_catalogue",
    "load_server",
    "make_style",
    "make_tile_matrix_set",
    "missing_port",
    "parse_document",
    "read_local_text",
    "schema",
    "started_at",
    "unreadable",
]
