"""Former place of the FastCGI records, which `mastaba_server` contains."""

from mastaba.api._deprecated import moved_names

__getattr__ = moved_names(
    __name__,
    {"mastaba_server.transport.fastcgi.records": "HEADER_SIZE encode_pairs record unpack_header"},
)
