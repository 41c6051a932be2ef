"""S3 clusters from environment variables (storage.md section 5.1)."""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import urlsplit

from mastaba.environment import Environment
from mastaba.errors import StorageError
from mastaba.storage.settings import require_set

_DEFAULT_URL = "http://localhost:9000"


@dataclass(frozen=True, slots=True)
class Cluster:
    """One S3 endpoint.

    Attributes:
        name: URL without the scheme; the part after ``@`` in ``bucket@cluster``.
        url: URL without trailing slash.
        key: access key.
        secret: secret key.
    """

    name: str
    url: str
    key: str
    secret: str = field(repr=False)


def read_clusters(environment: Environment) -> dict[str, Cluster]:
    """Return the clusters by name, the default cluster first.

    Raises:
        AccessDeniedError: S3_KEY or S3_SECRETKEY is not set.
        StorageError: the three lists have different lengths, or a URL is invalid. No message
            contains a secret.
    """
    urls = [url.rstrip("/") for url in environment.items("S3_URL")] or [_DEFAULT_URL]
    keys, secrets = environment.items("S3_KEY"), environment.items("S3_SECRETKEY")
    # There are no default credentials; the default address is that of a local store.
    require_set(environment, ("S3_KEY", "S3_SECRETKEY"), "s3://")
    if not len(urls) == len(keys) == len(secrets):
        raise StorageError(
            f"the variables MASTABA_S3_URL, MASTABA_S3_KEY and MASTABA_S3_SECRETKEY have "
            f"{len(urls)}, {len(keys)} and {len(secrets)} elements; the numbers must be equal",
            storage="s3://",
        )
    clusters: dict[str, Cluster] = {}
    for url, key, secret in zip(urls, keys, secrets, strict=True):
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise StorageError(
                f"{url!r} in MASTABA_S3_URL is not a URL such as https://host:port",
                storage="s3://",
            )
        name = url.partition("://")[2]
        if name in clusters:
            raise StorageError(f"duplicate cluster {name} in MASTABA_S3_URL", storage="s3://")
        clusters[name] = Cluster(name, url, key, secret)
    return clusters


def find_cluster(clusters: dict[str, Cluster], container: str) -> tuple[str, Cluster]:
    """Return the bucket and cluster of ``bucket`` or ``bucket@cluster``.

    Raises:
        StorageError: the cluster is unknown; the message lists the known ones.
    """
    bucket, _, name = container.partition("@")
    if not name:
        return bucket, next(iter(clusters.values()))
    if name not in clusters:
        raise StorageError(
            f"the cluster {name!r} of {container!r} is not in MASTABA_S3_URL, "
            f"which contains: {', '.join(clusters)}",
            storage=f"s3://{container}",
        )
    return bucket, clusters[name]
