"""Verification of S3 request signatures, version 4 and version 2, as in a store."""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import parse_qsl, quote, unquote

_V4: Final = re.compile(
    r"AWS4-HMAC-SHA256 Credential=([^/,]+)/([^,]+), ?SignedHeaders=([^,]+), ?Signature=(\w+)"
)


class SignatureError(Exception):
    """The signature is missing or invalid; ``code`` is the S3 error code."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


def check_signature(
    method: str,
    path: str,
    query: str,
    headers: Mapping[str, str],
    secrets: Mapping[str, str],
    bucket: str | None = None,
) -> None:
    """Check the header ``Authorization`` of a request.

    Args:
        method: HTTP method.
        path: path of the request target, as sent.
        query: query of the request target, as sent.
        headers: request headers with case-insensitive lookup.
        secrets: secrets by access key.
        bucket: bucket of a virtual host request, which is not in the path; otherwise None.

    Raises:
        SignatureError: the signature is missing or invalid.
    """
    authorization = headers.get("Authorization", "")
    if authorization.startswith("AWS "):
        key, _, signature = authorization[4:].partition(":")
        resource = path if bucket is None else f"/{bucket}{path}"
        expected = _version_2(method, resource, headers, _secret(secrets, key))
    else:
        match = _V4.fullmatch(authorization)
        if match is None:
            raise SignatureError("AccessDenied")
        key, scope, signed, signature = match.groups()
        expected = _version_4(
            method, path, query, headers, scope, signed.split(";"), _secret(secrets, key)
        )
    if not hmac.compare_digest(expected, signature):
        raise SignatureError("SignatureDoesNotMatch")


def _secret(secrets: Mapping[str, str], key: str) -> str:
    if key not in secrets:
        raise SignatureError("InvalidAccessKeyId")
    return secrets[key]


def _version_4(
    method: str,
    path: str,
    query: str,
    headers: Mapping[str, str],
    scope: str,
    signed: list[str],
    secret: str,
) -> str:
    pairs = sorted(
        (quote(name, safe="-_.~"), quote(value, safe="-_.~"))
        for name, value in parse_qsl(query, keep_blank_values=True)
    )
    request = "\n".join(
        (
            method,
            quote(unquote(path), safe="/-_.~"),
            "&".join(f"{name}={value}" for name, value in pairs),
            *(f"{name}:{' '.join(headers.get(name, '').split())}" for name in signed),
            "",
            ";".join(signed),
            headers.get("X-Amz-Content-SHA256", ""),
        )
    )
    text = "\n".join(
        (
            "AWS4-HMAC-SHA256",
            headers.get("X-Amz-Date", ""),
            scope,
            hashlib.sha256(request.encode()).hexdigest(),
        )
    )
    key = f"AWS4{secret}".encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    return hmac.digest(key, text.encode(), "sha256").hex()


def _version_2(method: str, resource: str, headers: Mapping[str, str], secret: str) -> str:
    text = "\n".join(
        (
            method,
            headers.get("Content-MD5", ""),
            headers.get("Content-Type", ""),
            headers.get("Date", ""),
            resource,
        )
    )
    digest = hmac.digest(secret.encode(), text.encode(), "sha1")
    return base64.b64encode(digest).decode()
