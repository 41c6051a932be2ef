"""The storage driver ``s3`` (storage.md section 5).

botocore signs the requests, and the HTTP client shared by all object storages sends them.
botocore's own client would need several times the CPU time of everything else in a tile request.
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
        bucket: name of the bucket.
        cluster: cluster of the bucket.
        client: HTTP client of the cluster.
        region: region for version 4 signatures.
        signature_version: 4, or 2 for old gateways.
        virtual_host: whether the bucket is part of the host name instead of the path.
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
                f"MASTABA_S3_SIGNATURE_VERSION is {version}, but must be 4 or 2", storage="s3://"
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
                f"the bucket {container!r} has no cluster, and the descriptor is not in S3: "
                f"move the descriptor to S3, or write {container}@cluster"
            )
        _, at, cluster = beside.partition("@")
        return f"{container}{at}{cluster}"

    def send(
        self, method: str, key: str, headers: dict[str, str], limit: int | None = None
    ) -> HTTPAnswer:
        path = quote(key, safe="/-_.~")
        request = AWSRequest(method, f"{self._base}/{path}", headers)
        if self._version_2:
            # Version 2 signs the path as sent.
            request.auth_path = f"/{self._bucket}/{quoted_key(key)}"
            HmacV1Auth(self._credentials).add_auth(request)
        else:
            # Version 4 signs the path in its canonical encoding.
            S3SigV4Auth(self._credentials, "s3", self._region).add_auth(request)
        url = f"{self._base}/{quoted_key(key)}"
        return self.client.request(method, url, dict(request.headers.items()), limit=limit)

    def refusal_reason(self, answer: HTTPAnswer) -> str:
        match = _ERROR_CODE.search(answer.body)
        code = match[1].decode() if match else ""
        if code == "NoSuchBucket" and not self._bucket_is_missing:
            # Absent objects are normal and not logged. A missing bucket is an error.
            self._bucket_is_missing = True
            logger.error("there is no bucket %s", self.full_name)
        return code
