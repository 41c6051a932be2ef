"""What sources may open: local files below some folders, and the network only if it is allowed.

Files of rasters can name other files: a VRT its sheets, a STAC item its assets. `references` finds
these names, this module decides about them, `gdal` limits what GDAL opens.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Self

from mastaba_build.errors import SourceError
from mastaba_build.plugins import OF_ENVIRONMENT, PluginSet

_ARCHIVES = ("/vsizip/", "/vsigzip/", "/vsitar/")
_REMOTE = (
    *("/vsicurl/", "/vsicurl?", "/vsicurl_streaming/", "/vsis3/", "/vsis3_streaming/"),
    *("/vsigs/", "/vsigs_streaming/", "/vsiaz/", "/vsiaz_streaming/", "/vsiadls/"),
    *("/vsioss/", "/vsioss_streaming/", "/vsiswift/", "/vsiswift_streaming/"),
)
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_REMOTE_SCHEMES = frozenset(["http", "https", "ftp", "s3", "gs", "az", "oss"])
_REMOTE_PREFIXES = ("WMS:", "WMTS:", "WCS:", "OGCAPI:")
_PREFIX = re.compile(r"([A-Za-z][A-Za-z0-9_]+):")
_INNER = {
    "gti": re.compile(r'GTI:"?([^"]*)"?', re.IGNORECASE),
    "netcdf": re.compile(r'NETCDF:"?([^"]*?)"?(?::[^:"/\\]*)?', re.IGNORECASE),
    "hdf5": re.compile(r'HDF5:"?([^"]*?)"?:[^"]*', re.IGNORECASE),
    "gpkg": re.compile(r'GPKG:"?([^"]*?)"?(?::[^:"/\\]*)?', re.IGNORECASE),
    "gtiff_dir": re.compile(r"GTIFF_DIR:(?:off:)?[0-9]+:(.*)", re.IGNORECASE),
}
"""Files in the names of subdatasets and of tile indexes."""


@dataclass(frozen=True, slots=True)
class Access:
    """What the sources of a build may open, and by which drivers.

    Attributes:
        folders: directories without symbolic links; local files must be below one of them.
        network: whether GDAL may open URLs.
        drivers: drivers of GDAL in addition to those that are always allowed.
        plugins: plugins that read pyramids in object stores, and write the output.
    """

    folders: frozenset[str] = frozenset()
    network: bool = False
    drivers: tuple[str, ...] = ()
    plugins: PluginSet = OF_ENVIRONMENT

    def with_sources(self, paths: Iterable[str]) -> Self:
        """Return what may be opened if the user has named sources: also files in their folders."""
        return replace(self, folders=self.folders.union(*map(granted, paths)))

    def file_of(self, name: str, by: str | None = None) -> str | None:
        """Check a name as GDAL takes it, and return the local file that it represents.

        Args:
            by: the file that contains the name; None if it is that of a source.

        Returns:
            The path of the file, or of an archive and a file in it; None for a URL.

        Raises:
            SourceError: it must not be opened.
        """
        if is_remote(name):
            if not self.network:
                raise SourceError(_message(name, by, "is on the network", "--allow-network"))
            return None
        path = local_path(name)
        if path is None:
            raise SourceError(
                _message(name, by, "is not a file or a URL that a source may open", "")
            )
        real = os.path.realpath(path)
        if not self._contains(real):
            target = "" if real == os.path.abspath(path) else f" (a link to {real})"
            option = f"--allow-folder {os.path.dirname(real)}"
            reason = f"is outside the folders of the sources{target}"
            raise SourceError(_message(name, by, reason, option))
        return path

    def _contains(self, path: str) -> bool:
        while path not in self.folders:
            path, below = os.path.dirname(path), path
            if path == below:
                return False
        return True


def granted(path: str) -> list[str]:
    """Return the directories that a source allows because the user has named it.

    Args:
        path: folder, glob, or a file as GDAL opens it.
    """
    if os.path.isdir(path):
        return [os.path.realpath(path)]
    if is_glob(path):
        while glob.has_magic(path):
            path = os.path.dirname(path)
        return [os.path.realpath(path or ".")]
    file = None if is_remote(path) else local_path(path)
    if file is None:
        return []
    folder = os.path.realpath(os.path.dirname(os.path.abspath(file)))
    while not os.path.exists(file) and os.path.dirname(file) != file:
        file = os.path.dirname(file)  # a file in an archive
    if not os.path.isfile(file):
        return [folder]
    # A link that the user names is followed, other links only below the folders.
    return [
        os.path.realpath(os.path.dirname(os.path.abspath(file))),
        os.path.dirname(os.path.realpath(file)),
    ]


def is_glob(path: str) -> bool:
    """Return whether a path is a pattern of the names of local files."""
    is_name = path.startswith("/vsi") or _SCHEME.match(path) or is_remote(path)
    return not is_name and glob.has_magic(path) and not os.path.exists(path)


def is_remote(name: str) -> bool:
    """Return whether GDAL or rasterio would read a name from the network."""
    while name.startswith(_ARCHIVES):
        name = _in_archive(name)
    scheme = _SCHEME.match(name)
    if scheme is not None:
        return not _REMOTE_SCHEMES.isdisjoint(scheme[1].lower().split("+"))
    return name.startswith(_REMOTE) or name.upper().startswith(_REMOTE_PREFIXES)


def local_path(name: str) -> str | None:
    """Return the local file that a name represents, possibly with a path in it if it is an archive.

    Returns:
        None if the name is not that of a local file.
    """
    if name.startswith(_ARCHIVES):
        name = _in_archive(name)
        if os.pardir in name.split("/"):
            return None  # GDAL and this machine may not agree about what it is
    if name.startswith("/vsi"):
        return None
    scheme = _SCHEME.match(name)
    if scheme is not None:
        rest = name[scheme.end() :]
        if scheme[1].lower() == "file":
            return rest or None
        if scheme[1].lower() in ("zip", "tar", "gzip", "zip+file", "tar+file"):
            return rest.replace("!", "/") or None
        if scheme[1].lower() == "vrt":
            return local_path(rest.partition("?")[0])
        return None
    prefix = _PREFIX.match(name)
    if prefix is not None:
        inner = _INNER.get(prefix[1].lower())
        if inner is not None:
            found = inner.fullmatch(name)
            return local_path(found[1]) if found and found[1] else None
        if not os.path.exists(name):
            return None
    return name if name and "\0" not in name else None


def _in_archive(name: str) -> str:
    """Return what follows the first prefix of a virtual file system."""
    rest = name[name.index("/", 1) + 1 :]
    if rest.startswith("{"):
        inner, _, path = rest[1:].partition("}")
        return f"{inner}{path}"
    return rest


def _message(name: str, by: str | None, reason: str, option: str) -> str:
    what = f"{name}: " if by is None else f"{by}: names {name}, which "
    hint = f"; if you trust it, allow it with {option}" if option else ""
    return f"{what}{reason}{hint}"
