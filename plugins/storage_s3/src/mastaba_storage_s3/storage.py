"""The storage driver ``s3`` (storage.md section 5).

Requests are signed by botocore's signers and sent by the HTTP client that all object storages
share: botocore's own client costs several times the CPU time of the rest of a tile.
"""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING, ClassVar, Final, Self
from urllib.parse import quote

from botocore.auth import HmacV1Auth, S3SigV4Auth  # type: ignore[import-untyped]
from botocore.awsrequest import AWSRequest  # type: ignore[import-untyped]
from botocore.credentials import Credentials  # type: ignore[import-untyped]

from mastaba.errors import StorageError
from mastaba.storage.http import HTTPAnswer, HTTPClient, HTTPStorage, quoted_key
from mastaba_storage_s3.clusters import Cluster, find_cluster, read_clusters

if TYPE_CHECKING:
    from mastaba.environment import Environment

logger = logging.getLogger(__name__)

_DEFAULT_REGION: Final = "us-east-1"
_ERROR_CODE: Final = re.compile(rb"<Code>([\w.-]+)</Code>")


class S3Storage(HTTPStorage):
    """Objects of one bucket.

    Args:
        bucket: its name.
        cluster: where it lies.
        client: of that cluster.
        region: for signatures of version 4.
        signature_version: 4, or 2 for old gateways.
        virtual_host: whether the bucket is a part of the host name rather than of the path.
    """

    name = "s3"
    container_field: ClassVar[str | None] = "bucket_name"

    def __init__(
        self,
        bucket: str,
        cluster: Cluster,
        client: HTTPClient,
        region: str = _DEFAULT_REGION,
        signature_version: int = 4,
        *,
        virtual_host: bool = False,
    ) -> None:
        super().__init__(f"{bucket}@{cluster.name}", client)
        self._bucket = bucket
        self._version_2 = signature_version == 2
        self._credentials = Credentials(cluster.key, cluster.secret)
        self._region = region
        if virtual_host:
            scheme, _, rest = cluster.url.partition("://")
            self._base = f"{scheme}://{bucket}.{rest}"
        else:
            self._base = f"{cluster.url}/{quote(bucket, safe='')}"
        self._bucket_is_missing = False

    @classmethod
    def open(cls, container: str, environment: Environment) -> Self:
        bucket, cluster = find_cluster(read_clusters(environment), container)
        version = environment.integer("S3_SIGNATURE_VERSION", 4)
        if version not in (2, 4):
            raise StorageError(
                f"MASTABA_S3_SIGNATURE_VERSION is {version}, it must be 4 or 2", storage="s3://"
            )
        return cls(
            bucket,
            cluster,
            HTTPClient.from_environment(cluster.url, environment),
            environment.text("S3_REGION") or _DEFAULT_REGION,
            version,
            virtual_host=environment.flag("S3_USE_VIRTUAL_HOST"),
        )

    @classmethod
    def resolve_container(cls, container: str, beside: str | None) -> str:
        if "@" in container:
            return container
        if beside is None:
            raise ValueError(
                f"the cluster of the bucket {container!r} is that of the descriptor, which is "
                f"not in S3: move the descriptor there, or write {container}@cluster"
            )
        _, at, cluster = beside.partition("@")
        return f"{container}{at}{cluster}"

    def send(
        self, method: str, key: str, headers: dict[str, str], limit: int | None = None
    ) -> HTTPAnswer:
        path = quote(key, safe="/-_.~")
        request = AWSRequest(method, f"{self._base}/{path}", headers)
        if self._version_2:
            # Signed as it is sent.
            request.auth_path = f"/{self._bucket}/{quoted_key(key)}"
            HmacV1Auth(self._credentials).add_auth(request)
        else:
            # Signed in the only form of its letters that the rules of version 4 know.
            S3SigV4Auth(self._credentials, "s3", self._region).add_auth(request)
        url = f"{self._base}/{quoted_key(key)}"
        return self.client.request(method, url, dict(request.headers.items()), limit=limit)

    def refusal_reason(self, answer: HTTPAnswer) -> str:
        match = _ERROR_CODE.search(answer.body)
        code = match[1].decode() if match else ""
        if code == "NoSuchBucket" and not self._bucket_is_missing:
            # Absent objects are an everyday matter, and go without a word; this is not.
            self._bucket_is_missing = True
            logger.error("there is no bucket %s", self.full_name)
        return code
