"""S3 clusters from environment variables and from boto3 (storage.md section 5)."""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Any, Final
from urllib.parse import urlsplit

import boto3.session
import botocore.session
from botocore.client import Config
from botocore.credentials import Credentials
from botocore.exceptions import BotoCoreError
from botocore.handlers import validate_bucket_name
from botocore.loaders import Loader, create_loader

from mastaba.api.storages import Environment, PerProcess, network_timeout
from mastaba.errors import AccessDeniedError, StorageError
from mastaba_http import certificate_authorities

_DEFAULT_URL: Final = "http://localhost:9000"
_DEFAULT_REGION: Final = "us-east-1"


class Cluster:
    """One S3 endpoint, shared by all its buckets.

    Args:
        environment: further variables.
        url: URL without trailing slash; None for the endpoint that boto3 is configured for.
        key: access key and secret key; None for the credentials that boto3 finds.

    Attributes:
        url: URL without trailing slash.
        name: URL without the scheme; the part after ``@`` in ``bucket@cluster``.
        region: region for version 4 signatures.
        signature_version: 4, or 2 for old gateways.
        virtual_host: whether the bucket is part of the host name instead of the path.
        credentials: credentials of botocore, which renew themselves if they are temporary.
        client: boto3 client.
    """

    def __init__(
        self, environment: Environment, url: str | None, key: tuple[str, str] | None
    ) -> None:
        self._environment = environment
        self._endpoint = url
        self._key = key
        self.signature_version = environment.integer("S3_SIGNATURE_VERSION", 4)
        if self.signature_version not in (2, 4):
            raise StorageError(
                f"MASTABA_S3_SIGNATURE_VERSION is {self.signature_version}, but must be 4 or 2",
                storage="s3://",
            )
        self.virtual_host = environment.flag("S3_USE_VIRTUAL_HOST")
        self.credentials: PerProcess[Any] = PerProcess(self._find_credentials)
        self.client: PerProcess[Any] = PerProcess(self._open_client)
        self.credentials.get()  # so that missing credentials are reported at once
        region = environment.text("S3_REGION") or boto3.session.Session().region_name
        self.region = region or _DEFAULT_REGION
        self.url: str = url or self.client.get().meta.endpoint_url.rstrip("/")
        self.name = self.url.partition("://")[2]

    def _find_credentials(self) -> Any:
        if self._key is not None:
            return Credentials(*self._key)
        found = boto3.session.Session().get_credentials()
        if found is None:
            raise AccessDeniedError(
                "the variables MASTABA_S3_KEY and MASTABA_S3_SECRETKEY are not set in the "
                "environment of the server, and boto3 finds no credentials",
                storage="s3://",
            )
        return found

    def _open_client(self) -> Any:
        key, secret = self._key or (None, None)
        timeout = network_timeout(self._environment)
        client = _session().client(
            "s3",
            endpoint_url=self._endpoint,
            aws_access_key_id=key,
            aws_secret_access_key=secret,
            region_name=self.region,
            verify=not self._environment.flag("SSL_NO_VERIFY") and certificate_authorities(),
            config=Config(
                signature_version="s3" if self.signature_version == 2 else "s3v4",
                s3={"addressing_style": "virtual" if self.virtual_host else "path"},
                connect_timeout=timeout,
                read_timeout=timeout,
                # The storage pool repeats failed reads of every driver.
                retries={"total_max_attempts": 1},
                request_checksum_calculation="when_required",
                response_checksum_validation="when_required",
            ),
        )
        # Gateways accept other names than AWS, such as tenant:bucket.
        client.meta.events.unregister("before-parameter-build.s3", validate_bucket_name)
        client.meta.events.register_last("before-parameter-build.s3", _follow_no_redirect)
        return client


def _session() -> boto3.session.Session:
    """Return a new session with the shared descriptions of services."""
    session = botocore.session.get_session()
    loader = _descriptions()
    session.register_component("data_loader", loader)
    made = boto3.session.Session(botocore_session=session)
    # Each session of boto3 adds its folder.
    loader.search_paths[:] = dict.fromkeys(loader.search_paths)
    return made


@cache
def _descriptions() -> Loader:
    """Return the descriptions of services, which are parsed once.

    Child processes inherit them. Parsing takes most of the processor time for a new client, and a
    server that follows its configuration has a new process after each change.
    """
    path = botocore.session.get_session().get_config_variable("data_path")
    return create_loader(path)


def _follow_no_redirect(context: dict[str, Any], **_: object) -> None:
    # boto3 would look for the region of the bucket, endlessly if the server does not give it.
    context["s3_redirect"]["redirected"] = True


def find_cluster(environment: Environment, container: str) -> tuple[str, Cluster]:
    """Return the bucket and cluster of ``bucket`` or ``bucket@cluster``.

    Raises:
        AccessDeniedError: there are no credentials.
        StorageError: the variables are invalid, or do not contain the cluster. No message
            contains a secret.
    """
    bucket, _, name = container.partition("@")
    try:
        clusters = _read_clusters(environment)
    except BotoCoreError as error:
        raise StorageError(f"boto3 cannot be used: {error}", storage="s3://") from error
    name = name or next(iter(clusters))
    if name not in clusters:
        raise StorageError(
            f"the cluster {name!r} of {container!r} is not in MASTABA_S3_URL, "
            f"which contains: {', '.join(clusters)}",
            storage=f"s3://{container}",
        )
    return bucket, clusters[name]


@lru_cache(maxsize=1)
def _read_clusters(environment: Environment) -> dict[str, Cluster]:
    """Return the clusters by name, the default cluster first."""
    urls = [url.rstrip("/") for url in environment.items("S3_URL")]
    keys, secrets = environment.items("S3_KEY"), environment.items("S3_SECRETKEY")
    if bool(keys) != bool(secrets):
        unset = "MASTABA_S3_SECRETKEY" if keys else "MASTABA_S3_KEY"
        raise AccessDeniedError(
            f"the variable {unset} is not set in the environment of the server", storage="s3://"
        )
    if not keys and not urls:
        cluster = Cluster(environment, None, None)
        return {cluster.name: cluster}
    urls = urls or [_DEFAULT_URL]
    if keys and not len(urls) == len(keys) == len(secrets):
        raise StorageError(
            f"the variables MASTABA_S3_URL, MASTABA_S3_KEY and MASTABA_S3_SECRETKEY have "
            f"{len(urls)}, {len(keys)} and {len(secrets)} elements; the numbers must be equal",
            storage="s3://",
        )
    clusters: dict[str, Cluster] = {}
    for number, url in enumerate(urls):
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise StorageError(
                f"{url!r} in MASTABA_S3_URL is not a URL such as https://host:port",
                storage="s3://",
            )
        cluster = Cluster(environment, url, (keys[number], secrets[number]) if keys else None)
        if cluster.name in clusters:
            raise StorageError(
                f"duplicate cluster {cluster.name} in MASTABA_S3_URL", storage="s3://"
            )
        clusters[cluster.name] = cluster
    return clusters
