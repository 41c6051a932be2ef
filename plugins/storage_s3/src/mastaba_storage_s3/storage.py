"""The storage driver ``s3`` (storage.md section 5).

boto3 provides credentials and region, and sends all requests except range reads. A range read is
signed by botocore and sent by the HTTP client of the core, because it happens for every tile and
boto3 would need three times the CPU time (see README.md).
"""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING, ClassVar, Final, Self
from urllib.parse import quote

from mastaba.api.storages import BoundedCalls, read_timeout
from mastaba.errors import AccessDeniedError, NoResponseError
from mastaba_http import HTTPStorage, quoted_key

if TYPE_CHECKING:
    from mastaba.api.storages import Environment
    from mastaba_http import HTTPAnswer
    from mastaba_storage_s3.clusters import Cluster

logger = logging.getLogger(__name__)

_ERROR_CODE: Final = re.compile(rb"<Code>([\w.-]+)</Code>")


class S3Storage(HTTPStorage):
    """Objects of one bucket.

    Args:
        bucket: name of the bucket.
        cluster: cluster of the bucket.
        environment: NETWORK_TIMEOUT, OBJECT_READ_TIMEOUT and SSL_NO_VERIFY.
    """

    name = "s3"
    container_field: ClassVar[str | None] = "bucket_name"
    writer: ClassVar[str | None] = "mastaba_storage_s3.writer:S3Writer"

    def __init__(self, bucket: str, cluster: Cluster, environment: Environment) -> None:
        from mastaba_http import HTTPClient

        scheme, _, place = cluster.url.partition("://")
        self._url = (
            f"{scheme}://{bucket}.{place}"
            if cluster.virtual_host
            else f"{cluster.url}/{quote(bucket, safe='')}"
        )
        client = HTTPClient.from_environment(self._url, environment)
        super().__init__(f"{bucket}@{cluster.name}", client)
        self._bucket = bucket
        self._cluster = cluster
        self._bucket_is_missing = False
        # The timeouts of boto3 begin again with each byte.
        self._bounded = BoundedCalls(read_timeout(environment))

    @classmethod
    def open(cls, container: str, environment: Environment) -> Self:
        from mastaba_storage_s3.clusters import find_cluster

        return cls(*find_cluster(environment, container), environment)

    @classmethod
    def resolve_container(cls, container: str, beside: str | None) -> str:
        if "@" in container:
            return container
        if beside is None:
            raise ValueError(
                f"the bucket {container!r} has no cluster, and the descriptor is not in S3: "
                f"move the descriptor to S3, or write {container}@cluster"
            )
        _, at, cluster = beside.partition("@")
        return f"{container}{at}{cluster}"

    def send(
        self, method: str, key: str, headers: dict[str, str], limit: int | None = None
    ) -> HTTPAnswer:
        from botocore.exceptions import BotoCoreError, ClientError
        from botocore.parsers import ResponseParserError

        try:
            if "Range" in headers:
                return super().send(method, key, self._signed(method, key, headers), limit)
            return self._bounded.run(lambda: self._send_with_boto3(method, key, headers, limit))
        except TimeoutError as error:
            raise NoResponseError(f"{self._cluster.url} does not answer: {error}") from error
        except (BotoCoreError, ClientError, ResponseParserError) as error:
            raise AccessDeniedError(f"boto3 gets no credentials: {error}") from error

    def _signed(self, method: str, key: str, headers: dict[str, str]) -> dict[str, str]:
        from botocore.auth import HmacV1Auth, S3SigV4Auth
        from botocore.awsrequest import AWSRequest

        request = AWSRequest(method, f"{self._url}/{quote(key, safe='/-_.~')}", headers)
        credentials = self._cluster.credentials.get().get_frozen_credentials()
        if self._cluster.signature_version == 2:
            # Version 2 signs the path as sent.
            request.auth_path = f"/{self._bucket}{quoted_key(key)}"
            HmacV1Auth(credentials).add_auth(request)
        else:
            # Version 4 signs the path in its canonical encoding.
            S3SigV4Auth(credentials, "s3", self._cluster.region).add_auth(request)
        return dict(request.headers.items())

    def _send_with_boto3(
        self, method: str, key: str, headers: dict[str, str], limit: int | None
    ) -> HTTPAnswer:
        from botocore.awsrequest import HeadersDict
        from botocore.exceptions import (
            ClientError,
            ConnectionError,
            HTTPClientError,
            IncompleteReadError,
        )
        from botocore.parsers import ResponseParserError

        from mastaba_http import HTTPAnswer, failure_reason

        client = self._cluster.client.get()
        arguments = {"Bucket": self._bucket, "Key": key}
        if "If-Match" in headers:
            arguments["IfMatch"] = headers["If-Match"]
        body = b""
        try:
            found = (client.head_object if method == "HEAD" else client.get_object)(**arguments)
            if method == "GET":
                with found["Body"] as stream:
                    if limit is None or found.get("ContentLength", 0) <= limit:
                        body = stream.read(limit)
        except ClientError as error:
            found, code = error.response, error.response["Error"].get("Code") or ""
            body = b"" if code.isdigit() else b"<Code>%s</Code>" % code.encode()
        except (
            ConnectionError,
            HTTPClientError,
            IncompleteReadError,
            ResponseParserError,
            ValueError,
        ) as error:
            raise NoResponseError(
                f"{self._cluster.url} does not answer: {failure_reason(error)}"
            ) from error
        facts = found["ResponseMetadata"]
        return HTTPAnswer(facts["HTTPStatusCode"], HeadersDict(facts["HTTPHeaders"]), body)

    def refusal_reason(self, answer: HTTPAnswer) -> str:
        match = _ERROR_CODE.search(answer.body)
        code = match[1].decode() if match else ""
        if code == "NoSuchBucket" and not self._bucket_is_missing:
            # Absent objects are normal and not logged. A missing bucket is an error.
            self._bucket_is_missing = True
            logger.error("the bucket %s does not exist", self.full_name)
        return code
