"""Settings of ``plugins.access`` in server.json."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

_HEADER: Final = {"type": "string", "pattern": "^[A-Za-z0-9-]{1,64}$"}
_FILE: Final = {"type": "string", "minLength": 1}

SETTINGS_SCHEMA: Final[Mapping[str, Any]] = {
    "rules": {
        **_FILE,
        "description": "File with the rules, JSON or YAML (`access.schema.json`). Required.",
    },
    "keys": {
        **_FILE,
        "description": "Store of API keys: a database of SQLite (`.sqlite`, `.db`), a JSON or YAML "
        "file, or a directory with one file per key.",
    },
    "secret_file": {
        **_FILE,
        "description": "File with the secrets of signed addresses, a line `ID SECRET` for each, "
        "readable by its owner only. The first one signs, all verify.",
    },
    "trusted_fronts": {
        "type": "array",
        "items": {"type": "string", "pattern": "^(fastcgi|unix:|[0-9A-Fa-f.:]+(/[0-9]{1,3})?)$"},
        "description": "Front servers that say who and where the client is: addresses or networks "
        "such as 10.0.0.0/8, `unix:` for Unix sockets, `fastcgi` for all fronts that use FastCGI.",
        "default": [],
    },
    "user_header": {**_HEADER, "description": "Header in which trusted fronts name the user."},
    "groups_header": {
        **_HEADER,
        "description": "Header in which trusted fronts list the groups of the user, with commas.",
    },
    "client_certificate_header": {
        **_HEADER,
        "description": "Header in which trusted fronts give the subject of the certificate that "
        "the client has shown.",
    },
    "users": {
        **_FILE,
        "description": "File of the users of HTTP Basic, a line `name:scrypt$…` for each.",
    },
    "names": {
        "type": "array",
        "items": {"type": "string", "pattern": "^[A-Za-z0-9_.-]{1,32}$"},
        "description": "Names of query parameters that contain credentials, in any case.",
        "default": ["apikey", "api_key", "key", "token", "access_token"],
    },
    "headers": {
        "type": "array",
        "items": _HEADER,
        "description": "Names of headers that contain credentials.",
        "default": ["X-API-Key", "X-Key", "apikey"],
    },
    "sessions": {
        "type": "object",
        "description": "Cookies of the service `auth`, for pages of browsers.",
        "additionalProperties": False,
        "properties": {
            "enabled": {
                "type": "boolean",
                "description": "Whether cookies are set and accepted.",
                "default": False,
            },
            "hours": {
                "type": "number",
                "exclusiveMinimum": 0,
                "maximum": 744,
                "description": "Lifetime of a session.",
                "default": 12,
            },
            "origins": {
                "type": "array",
                "items": {"type": "string", "pattern": "^https://[^/\\s]+$"},
                "description": "Origins whose pages may send the cookie, such as "
                "https://portal.example.org.",
                "default": [],
            },
        },
    },
    "bucket": {
        "type": "integer",
        "minimum": 1,
        "maximum": 86400,
        "description": "Seconds to a multiple of which the end of a signed address is rounded up, "
        "so that equal scopes give equal addresses.",
        "default": 900,
    },
    "quotas": {
        **_FILE,
        "description": "Database of quotas (SQLite), on a local disk; by default `quotas.sqlite` "
        "in the directory of mastaba-usage.",
    },
    "store": {
        "type": "object",
        "description": "Valkey server that several nodes share, for rates and quotas. By default, "
        "each node counts for itself. Needs the package valkey.",
        "additionalProperties": False,
        "properties": {
            "url": {
                "type": "string",
                "pattern": "^(valkeys?|unix)://.",
                "description": "Address, such as valkey://user:password@10.0.0.5:6379/0; "
                "`valkeys` for TLS. Required.",
            },
            "nodes": {
                "type": "integer",
                "minimum": 1,
                "maximum": 10000,
                "description": "Number of nodes. While the store does not answer, each of them "
                "grants this part of rates and quotas.",
                "default": 2,
            },
            "timeout": {
                "type": "number",
                "exclusiveMinimum": 0,
                "maximum": 1,
                "description": "Seconds that a request waits for the store.",
                "default": 0.01,
            },
        },
    },
    "rate_headers": {
        "type": "boolean",
        "description": "Whether responses with status 429 have the headers RateLimit and "
        "RateLimit-Policy.",
        "default": False,
    },
    "identifiers": {
        "type": "object",
        "description": "Settings of the identifiers of other plugins, by name.",
        "additionalProperties": {"type": "object"},
        "default": {},
    },
}
