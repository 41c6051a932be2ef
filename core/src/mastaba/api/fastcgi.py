"""FastCGI records, for tools that send requests to a server (FastCGI 1.0, section 3.3)."""

from mastaba_server.transport.fastcgi.records import (
    HEADER_SIZE,
    encode_pairs,
    record,
    unpack_header,
)

__all__ = ["HEADER_SIZE", "encode_pairs", "record", "unpack_header"]
