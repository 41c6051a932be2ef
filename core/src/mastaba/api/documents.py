"""Documents of JSON and YAML, and reports of problems in them."""

from mastaba.api._deprecated import moved_names
from mastaba_documents.faults import Fault, Faults, FileFaults, Severity, UnusableError
from mastaba_documents.names import is_beside_pyramid
from mastaba_documents.reading import parse_document, read_local_text
from mastaba_documents.validation import DocumentValidator

__all__ = [
    "DocumentValidator",
    "Fault",
    "Faults",
    "FileFaults",
    "Severity",
    "UnusableError",
    "is_beside_pyramid",
    "parse_document",
    "read_local_text",
]

__getattr__ = moved_names(
    __name__,
    {
        "mastaba.tooling.documents": "LoggerConfig ServerConfig Source did_you_mean "
        "load_catalogue load_server make_style make_tile_matrix_set missing_port schema "
        "started_at unreadable"
    },
)
