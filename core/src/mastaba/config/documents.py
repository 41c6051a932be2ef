"""Reading configuration documents from files or object storages."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, Final

from mastaba.config.schema import SchemaValidator, Services
from mastaba.config.source import Source
from mastaba.errors import AccessDeniedError, MastabaError, ObjectNotFoundError
from mastaba.plugins.manager import Plugins
from mastaba.storage_pool import StoragePool
from mastaba_documents.faults import Faults, FileFaults, UnusableError
from mastaba_documents.reading import decoded, parse_document, started_at
from mastaba_storage.base import ByteRange, ObjectRead
from mastaba_storage.path import ResourcePath

_READS: Final = 16
_TIFF_MAGICS: Final = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")


class DocumentReader:
    """Reader for the documents of one load; every failure is recorded as an error.

    All methods except `exists` raise `UnusableError` then. The argument ``named_by``
    is the key or line, and the file, that name the document.

    Attributes:
        faults: gets the errors.
        source: gets the documents that were read.
        pool: the storages from which they are read.
    """

    def __init__(
        self, pool: StoragePool, plugins: Plugins, faults: Faults, source: Source | None = None
    ) -> None:
        self.faults = faults
        self.source = source or Source()
        self.pool = pool
        self._plugins = plugins
        self._validators: dict[str, SchemaValidator] = {}
        self._fetched: dict[ResourcePath, ObjectRead | MastabaError] = {}

    def fetch(self, paths: Iterable[ResourcePath]) -> None:
        """Read documents in object storages in parallel, for the next call of `text` for each.

        Those of an earlier call that `text` did not ask for are forgotten.
        """
        wanted = [path for path in dict.fromkeys(paths) if path.storage != "file"]
        # Starts no more threads than there are paths.
        with ThreadPoolExecutor(_READS, "mastaba-fetch") as threads:
            self._fetched = dict(zip(wanted, threads.map(self._attempt, wanted), strict=True))

    def _attempt(self, path: ResourcePath) -> ObjectRead | MastabaError:
        try:
            return self.pool.open_path(path).read(path.key)
        except MastabaError as error:
            return error

    def silent(self, pool: StoragePool | None = None) -> DocumentReader:
        """Return a reader of the same or other storages with records of its own."""
        other = DocumentReader(pool or self.pool, self._plugins, Faults())
        other._validators = self._validators
        return other

    def path(self, text: str, file: str, at: str) -> ResourcePath:
        """Parse a path that is at a place in a file."""
        try:
            return ResourcePath.parse(text)
        except ValueError as error:
            FileFaults(self.faults, file).refuse(at, str(error), "correct the path")

    def text(self, path: ResourcePath, named_by: str, *, may_be_empty: bool = False) -> str:
        """Return the text of a file or object."""
        faults, named = FileFaults(self.faults, str(path)), f"it is named by {named_by}"
        try:
            read = self._fetched.pop(path, None) or self._attempt(path)
            if isinstance(read, MastabaError):
                raise read
        except ObjectNotFoundError as error:
            self.source.failed(path, error)
            reason = f"does not exist; {named}{started_at(str(path))}"
            faults.refuse("$", reason, "correct the path, or add the file")
        except MastabaError as error:
            self.source.failed(path, error)
            _refuse_tiff(self._start(path), faults, named)
            remedy = (
                "set the variables, or correct the access rights"
                if isinstance(error, AccessDeniedError)
                else "correct the path, or make it readable for the server"
            )
            faults.refuse("$", f"{error}; {named}", remedy)
        self.source.read(path, read)
        if not read.data and not may_be_empty:
            reason = f"is empty; {named}{started_at(str(path))}"
            faults.refuse("$", reason, "write the file again")
        _refuse_tiff(read.data, faults, named)
        try:
            return decoded(read.data)
        except ValueError as error:
            faults.refuse("$", str(error), "write it as UTF-8 text")

    def exists(self, path: ResourcePath) -> bool:
        """Return whether an object exists; True if unreachable, since reading it reports why."""
        found = True
        with suppress(MastabaError):
            found = self.pool.open_path(path).exists(path.key)
        if not found:
            self.source.missed(path)
        return found

    def _start(self, path: ResourcePath) -> bytes:
        """Return the start of a document that is perhaps too large to be read as a whole."""
        with suppress(MastabaError):
            return self.pool.open_path(path).read(path.key, ByteRange(0, 4)).data
        return b""

    def document(self, path: ResourcePath, named_by: str) -> Any:
        """Return the parsed document without nulls."""
        document = parse_document(self.text(path, named_by), str(path), self.faults)
        if document is None:
            raise UnusableError
        return document

    def validated(
        self, document: Any, kind: str, file: str, services: Services | None = None
    ) -> dict[str, Any]:
        """Return a valid document; for ``services``, see `SchemaValidator`."""
        if kind not in self._validators:
            self._validators[kind] = SchemaValidator(kind, self._plugins, services)
        valid = self._validators[kind].validate(document, file, self.faults)
        if valid is None:
            raise UnusableError
        return valid


def _refuse_tiff(start: bytes, faults: FileFaults, named: str) -> None:
    """Refuse an image instead of a document."""
    if start.startswith(_TIFF_MAGICS):
        reason = f"is a TIFF image (a GeoTIFF or a slab), not a JSON document; {named}"
        remedy = "name the descriptor of the pyramid; convert a GeoTIFF to a pyramid first"
        faults.refuse("$", reason, remedy)
