"""Wrong storage drivers: each has one bug, and names the test of the kit that must report it.

`test_wrong_plugins.py` runs this file in a process of its own.
"""

from __future__ import annotations

import os
import posixpath
import threading
import time
import unicodedata
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, suppress
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import unquote, unquote_plus

import pytest
from tests.conformance.shelf import ShelfStorage, gone, refusing, silent
from tests.conformance.wrong import WrongPlugins

from mastaba.errors import (
    AccessDeniedError,
    ObjectChangedError,
    ObjectNotFoundError,
    StorageError,
    StorageUnavailableError,
)
from mastaba_conformance.storage import StorageTests
from mastaba_storage.base import ByteRange, ObjectRead, ObjectStat

_leaked: list[int] = []


def leak(path: str) -> int:
    """Return a descriptor of a file that no driver closes."""
    _leaked.append(os.open(path, os.O_RDONLY))
    return _leaked[-1]


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    """Close what a driver leaks: each later test would list it, several times."""
    yield
    while _leaked:
        os.close(_leaked.pop())


class TestRight(StorageTests):
    driver: type[ShelfStorage] = ShelfStorage
    forks_while_reading = True

    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        folder = tmp_path / "shelf"
        folder.mkdir()
        return folder

    @pytest.fixture
    def writer(self, folder: Path) -> ShelfStorage:
        return ShelfStorage(str(folder))

    @pytest.fixture
    def storage(self, folder: Path) -> ShelfStorage:
        return self.driver(str(folder))

    @pytest.fixture
    def writable(self, storage: ShelfStorage) -> ShelfStorage:
        return storage

    @pytest.fixture
    def open_refused(self, tmp_path: Path) -> Callable[[], ShelfStorage]:
        return lambda: self.driver(refusing(tmp_path))

    @pytest.fixture
    def open_silent(self, tmp_path: Path) -> Callable[[], ShelfStorage]:
        return lambda: self.driver(silent(tmp_path))

    @pytest.fixture
    def open_unreachable(self, tmp_path: Path) -> Callable[[], ShelfStorage]:
        return lambda: self.driver(str(tmp_path / "nowhere"))

    @pytest.fixture
    def outage(self, folder: Path) -> Callable[[], AbstractContextManager[Any]]:
        return lambda: gone(folder)


WRONG: WrongPlugins[type[ShelfStorage]] = WrongPlugins()
reported_by = WRONG.reported_by


# ---------------------------------------------------------------- results


class Changed(ShelfStorage):
    """Changes what is read; `changed` is overridden."""

    def read(self, key, byte_range=None, version=None):
        return self.changed(super().read(key, byte_range, version))

    def changed(self, read):
        return read


@reported_by("test_whole_object")
class ReturnsBytearray(Changed):
    def changed(self, read):
        return read._replace(data=bytearray(read.data))


@reported_by("test_range")
class ReturnsMemoryview(Changed):
    def changed(self, read):
        return read._replace(data=memoryview(read.data))


@reported_by("test_read_ranges_equals_single_reads")
class ReturnsBytearraysOfRanges(ShelfStorage):
    def read_ranges(self, key, byte_ranges, version=None):
        reads = super().read_ranges(key, byte_ranges, version)
        return [read._replace(data=bytearray(read.data)) for read in reads]


@reported_by("test_whole_object")
class ReturnsPlainTuple(Changed):
    def changed(self, read):
        return tuple(read)


@reported_by("test_whole_object")
class ReturnsBytesOnly(Changed):
    def changed(self, read):
        return read.data


@reported_by("test_whole_object")
class IntegerVersion(Changed):
    def changed(self, read):
        return read._replace(version=int(read.version, 16))


@reported_by("test_whole_object")
class BytesVersion(Changed):
    def changed(self, read):
        return read._replace(version=read.version.encode())


@reported_by("test_whole_object")
class DatetimeStamp(Changed):
    def changed(self, read):
        return read._replace(modified=datetime.fromtimestamp(read.modified, UTC))


@reported_by("test_whole_object")
class TextStamp(Changed):
    def changed(self, read):
        return read._replace(modified=time.ctime(read.modified))


@reported_by("test_whole_object")
class MillisecondStamp(Changed):
    def changed(self, read):
        return read._replace(modified=read.modified * 1000)


@reported_by("test_whole_object")
class MonotonicStamp(Changed):
    def changed(self, read):
        return read._replace(modified=time.monotonic() % 1e6)


@reported_by("test_bytes_are_returned_unchanged")
class TranslatesNewlines(Changed):
    def changed(self, read):
        return read._replace(data=read.data.replace(b"\r\n", b"\n"))


@reported_by("test_bytes_are_returned_unchanged")
class StripsZeros(Changed):
    def changed(self, read):
        return read._replace(data=read.data.rstrip(b"\0"))


@reported_by("test_large_object")
class ReadsAtMost8MiB(Changed):
    def changed(self, read):
        return read._replace(data=read.data[: 8 << 20])


class ChangedStat(ShelfStorage):
    def stat(self, key):
        facts = super().stat(key)
        return self.changed(facts.size, facts.version, facts.modified)


@reported_by("test_stat")
class StatOfDictionary(ChangedStat):
    def changed(self, size, version, modified):
        return {"size": size, "version": version}


@reported_by("test_stat")
class StatOfFloat(ChangedStat):
    def changed(self, size, version, modified):
        return ObjectStat(float(size), version, modified)


@reported_by("test_stat")
class StatOfIntegerVersion(ChangedStat):
    def changed(self, size, version, modified):
        return ObjectStat(size, int(version, 16), modified)


@reported_by("test_stat")
class StatOfDatetime(ChangedStat):
    def changed(self, size, version, modified):
        return ObjectStat(size, version, datetime.fromtimestamp(modified, UTC))


@reported_by("test_stat")
class StatOfQuotedVersion(ChangedStat):
    def changed(self, size, version, modified):
        return ObjectStat(size, f'"{version}"', modified)


@reported_by("test_stat")
class StatOfTheWholeFile(ChangedStat):
    def changed(self, size, version, modified):
        return ObjectStat(size + 32, version, modified)


@reported_by("test_stat")
class RemembersSizes(ShelfStorage):
    def __init__(self, container):
        super().__init__(container)
        self._known = {}

    def stat(self, key):
        if key not in self._known:
            self._known[key] = super().stat(key)
        return self._known[key]


# ---------------------------------------------------------------- attributes


@reported_by("test_driver_has_the_required_attributes")
class UpperCaseName(ShelfStorage):
    name = "SHELF"


@reported_by("test_driver_has_the_required_attributes")
class OtherFullName(ShelfStorage):
    full_name = "my shelf"


@reported_by("test_driver_has_the_required_attributes")
class NameNoPathCanHold(ShelfStorage):
    name = "she lf"


@reported_by("test_driver_has_the_required_attributes")
class RemoteWithoutContainer(ShelfStorage):
    container_field = None


# ---------------------------------------------------------------- absence


class Absent(ShelfStorage):
    """Treats absent objects in another way; `absent` is overridden."""

    def read(self, key, byte_range=None, version=None):
        try:
            return super().read(key, byte_range, version)
        except ObjectNotFoundError as error:
            return self.absent(key, error)

    def absent(self, key, error):
        raise error


@reported_by("test_absent_object_is_reported_by_name")
class AbsentIsNone(Absent):
    def absent(self, key, error):
        return None


@reported_by("test_absent_object_is_reported_by_name")
class AbsentIsEmpty(Absent):
    def absent(self, key, error):
        return ObjectRead(b"")


@reported_by("test_absent_object_is_reported_by_name")
class AbsentIsKeyError(Absent):
    def absent(self, key, error):
        raise KeyError(key)


@reported_by("test_absent_object_is_reported_by_name")
class AbsentIsErrorOfTheSystem(Absent):
    def absent(self, key, error):
        raise error.__cause__


@reported_by("test_absent_object_is_reported_by_name")
class AbsentIsUnavailable(Absent):
    def absent(self, key, error):
        raise self.error(StorageUnavailableError, key, "cannot be read")


@reported_by("test_absent_object_is_reported_by_name")
class AbsentWithoutName(Absent):
    def absent(self, key, error):
        raise ObjectNotFoundError("no such object", storage=self.full_name, key=key)


@reported_by("test_absent_object_is_reported_by_name")
class AbsentWithoutKey(Absent):
    def absent(self, key, error):
        raise ObjectNotFoundError(str(error), storage=self.full_name)


@reported_by("test_absent_object_is_reported_by_name")
class AbsentWithoutStorage(Absent):
    def absent(self, key, error):
        raise ObjectNotFoundError(str(error), key=key)


@reported_by("test_absent_object_is_reported_by_name")
class StatOfAbsentIsEmpty(ShelfStorage):
    def stat(self, key):
        try:
            return super().stat(key)
        except ObjectNotFoundError:
            return ObjectStat(0)

    def exists(self, key):
        return super().stat(key) is not None


@reported_by("test_absent_object_is_reported_by_name")
class RangesOfAbsentAreNone(ShelfStorage):
    def read_ranges(self, key, byte_ranges, version=None):
        try:
            return super().read_ranges(key, byte_ranges, version)
        except ObjectNotFoundError:
            return []


@reported_by("test_absent_object_is_reported_by_name")
class AnswersEmptyRangesItself(ShelfStorage):
    def read(self, key, byte_range=None, version=None):
        if byte_range is not None and byte_range.length == 0:
            return ObjectRead(b"")
        return super().read(key, byte_range, version)


@reported_by("test_exists")
class ExistsAlways(ShelfStorage):
    def exists(self, key):
        return True


@reported_by("test_exists")
class ExistsAsSize(ShelfStorage):
    def exists(self, key):
        with suppress(ObjectNotFoundError):
            return self.stat(key).size
        return 0


@reported_by("test_short_and_empty_objects")
class EmptyObjectsDoNotExist(ShelfStorage):
    def exists(self, key):
        return super().exists(key) and self.stat(key).size > 0


@reported_by("test_short_and_empty_objects")
class EmptyObjectsAreAbsent(Changed):
    def changed(self, read):
        if not read.data:
            raise ObjectNotFoundError("empty")
        return read


class Remembering(ShelfStorage):
    def __init__(self, container):
        super().__init__(container)
        self.known = {}


@reported_by("test_absence_is_not_remembered")
class RemembersAbsence(Remembering):
    def read(self, key, byte_range=None, version=None):
        if key in self.known:
            raise self.known[key]
        try:
            return super().read(key, byte_range, version)
        except ObjectNotFoundError as error:
            self.known[key] = error
            raise


@reported_by("test_absence_is_not_remembered")
class RemembersAbsenceInExists(Remembering):
    def exists(self, key):
        self.known[key] = self.known.get(key, True) and super().exists(key)
        return self.known[key]


@reported_by("test_absence_is_not_remembered")
class RemembersAbsenceInStat(Remembering):
    def stat(self, key):
        if key in self.known:
            raise self.known[key]
        try:
            return super().stat(key)
        except ObjectNotFoundError as error:
            self.known[key] = error
            raise

    def exists(self, key):
        return os.path.exists(self.path(key))


@reported_by("test_presence_is_not_remembered")
class RemembersBytes(Remembering):
    def read(self, key, byte_range=None, version=None):
        at = key, byte_range, version
        if at not in self.known:
            self.known[at] = super().read(key, byte_range, version)
        return self.known[at]


@reported_by("test_presence_is_not_remembered")
class RemembersExistence(Remembering):
    def exists(self, key):
        self.known[key] = self.known.get(key, False) or super().exists(key)
        return self.known[key]


# ---------------------------------------------------------------- keys


class OtherKeys(ShelfStorage):
    """Looks for objects under other keys; `other` is overridden. Written ones are unchanged."""

    def read(self, key, byte_range=None, version=None):
        return super().read(self.other(key), byte_range, version)

    def stat(self, key):
        return super().stat(self.other(key))

    def other(self, key):
        return key

    def stored(self):
        """Return the keys of this test that may be stored."""
        names = ("Exact.tif", "é", "a b", "a+b", "100%25", "down", "sss")
        return [f"conformance/{name}" for name in names]

    def existing(self, keys):
        return next((key for key in keys if os.path.exists(self.path(key))), None)


@reported_by("test_similar_key_is_another_object")
class FoldsCase(OtherKeys):
    def other(self, key):
        return self.existing(name for name in self.stored() if name.lower() == key.lower()) or key


@reported_by("test_similar_key_is_another_object")
class MatchesPrefixes(OtherKeys):
    def other(self, key):
        return self.existing([key, *(n for n in self.stored() if n.startswith(key))]) or key


@reported_by("test_similar_key_is_another_object")
class MatchesPatterns(OtherKeys):
    def other(self, key):
        return self.existing([key, *(n for n in self.stored() if fnmatchcase(n, key))]) or key


@reported_by("test_similar_key_is_another_object")
class MatchesLikeSQL(OtherKeys):
    def other(self, key):
        pattern = key.replace("%", "*").replace("_", "?")
        return self.existing([key, *(n for n in self.stored() if fnmatchcase(n, pattern))]) or key


@reported_by("test_similar_key_is_another_object")
class StripsKeys(OtherKeys):
    def other(self, key):
        return "/".join(part.strip() for part in key.split("/"))


@reported_by("test_similar_key_is_another_object")
class StripsSlashes(OtherKeys):
    def other(self, key):
        return key.rstrip("/")


@reported_by("test_similar_key_is_another_object")
class UnquotesKeysIfAbsent(OtherKeys):
    def other(self, key):
        return self.existing([key, unquote(key)]) or key


@reported_by("test_keys_are_used_unchanged")
class UnquotesKeys(OtherKeys):
    def other(self, key):
        return unquote(key)


@reported_by("test_keys_are_used_unchanged")
class TakesPlusForSpace(OtherKeys):
    def other(self, key):
        return unquote_plus(key.replace("%", "%25"))


@reported_by("test_keys_are_used_unchanged")
class CutsQueries(OtherKeys):
    def other(self, key):
        return key.partition("?")[0]


@reported_by("test_keys_are_used_unchanged")
class DropsNonASCII(OtherKeys):
    def other(self, key):
        return key.encode("ascii", "ignore").decode()


@reported_by("test_keys_are_used_unchanged")
class EscapesQuotes(OtherKeys):
    def other(self, key):
        return key.replace("'", "''")


@reported_by("test_composed_and_decomposed_characters_differ")
class ComposesCharacters(OtherKeys):
    def other(self, key):
        return unicodedata.normalize("NFC", key)


@reported_by("test_keys_are_not_normalised_as_paths")
class NormalisesPaths(OtherKeys):
    def other(self, key):
        return posixpath.normpath(key)


@reported_by("test_long_keys_with_a_common_start_differ")
class CutsLongKeys(ShelfStorage):
    def path(self, key):
        return super().path(key)

    def read(self, key, byte_range=None, version=None):
        return super().read(key if len(key) < 150 else f"{key[:-1]}1", byte_range, version)


# ---------------------------------------------------------------- what stays open


@reported_by("test_reads_leave_nothing_open")
class LeaksADescriptorPerRead(ShelfStorage):
    def read(self, key, byte_range=None, version=None):
        read = super().read(key, byte_range, version)
        leak(self.path(key))
        return read


@reported_by("test_reads_leave_nothing_open")
class LeaksADescriptorPerStat(ShelfStorage):
    def stat(self, key):
        leak(self.container)
        return super().stat(key)


@reported_by("test_reads_leave_nothing_open")
class LeaksADescriptorPerAbsence(Absent):
    def absent(self, key, error):
        leak(self.container)
        raise error


@reported_by("test_reads_leave_nothing_open")
class LeaksADescriptorPerVersion(Remembering):
    def read(self, key, byte_range=None, version=None):
        read = super().read(key, byte_range, version)
        if (key, read.version) not in self.known:
            self.known[key, read.version] = leak(self.path(key))
        return read


@reported_by("test_reads_leave_nothing_open")
class LeaksAThreadPerRead(ShelfStorage):
    def read(self, key, byte_range=None, version=None):
        threading.Thread(target=threading.Event().wait, args=(20,), daemon=True).start()
        return super().read(key, byte_range, version)


@reported_by("test_close_leaves_nothing_open")
class OpenAfterClose(ShelfStorage):
    def __init__(self, container):
        super().__init__(container)
        self.descriptor = leak(container)


@reported_by("test_close_leaves_nothing_open")
class OpenAfterCloseInThreads(ShelfStorage):
    def read(self, key, byte_range=None, version=None):
        local = threading.get_ident()
        if not hasattr(self, f"_{local}"):
            setattr(self, f"_{local}", leak(self.container))
        return super().read(key, byte_range, version)


@reported_by("test_close_twice")
class ClosesOnce(ShelfStorage):
    def __init__(self, container):
        super().__init__(container)
        self.descriptor = os.open(container, os.O_RDONLY)

    def close(self):
        os.close(self.descriptor)


# ---------------------------------------------------------------- bounds and ranges


@reported_by("test_object_above_the_bound_is_not_read_whole")
class ReadsAnySizeWhole(ShelfStorage):
    def read(self, key, byte_range=None, version=None):
        if byte_range is None:
            byte_range = ByteRange(0, self.stat(key).size)
        return super().read(key, byte_range, version)


@reported_by("test_object_above_the_bound_is_not_read_whole")
class TruncatesWholeObjects(ShelfStorage):
    def read(self, key, byte_range=None, version=None):
        return super().read(key, byte_range or ByteRange(0, 1 << 27), version)


@reported_by("test_object_above_the_bound_is_not_read_whole")
class AdvisesToRetryLargeObjects(ShelfStorage):
    def read(self, key, byte_range=None, version=None):
        try:
            return super().read(key, byte_range, version)
        except StorageError as error:
            if type(error) is StorageError:
                raise self.error(StorageUnavailableError, key, "is too large") from error
            raise


class OtherRanges(ShelfStorage):
    """Reads other ranges; `other` is overridden."""

    def read(self, key, byte_range=None, version=None):
        if byte_range is not None:
            byte_range = self.other(*byte_range)
        return super().read(key, byte_range, version)

    def other(self, offset, length):
        return ByteRange(offset, length)


@reported_by("test_large_object")
class WrapsAt16MiB(OtherRanges):
    def other(self, offset, length):
        return ByteRange(offset & 0xFFFFFF, length)


@reported_by("test_large_object")
class CutsAt16MiB(OtherRanges):
    def other(self, offset, length):
        return ByteRange(offset, max(0, min(length, (1 << 24) - offset)))


@reported_by("test_range_without_bytes_is_empty")
class WrapsAt4GiB(OtherRanges):
    def other(self, offset, length):
        return ByteRange(offset & 0xFFFFFFFF, length)


@reported_by("test_range_without_bytes_is_empty")
class WrapsAt2GiB(OtherRanges):
    def other(self, offset, length):
        return ByteRange(offset & 0x7FFFFFFF, length)


@reported_by("test_range")
class IncludesTheEnd(OtherRanges):
    def other(self, offset, length):
        return ByteRange(offset, length + 1)


@reported_by("test_range")
class ExcludesTheLastByte(OtherRanges):
    def other(self, offset, length):
        return ByteRange(offset, length - 1)


@reported_by("test_range")
class TakesOffsetZeroForNone(OtherRanges):
    def other(self, offset, length):
        return ByteRange(offset, length) if offset else None


@reported_by("test_range_without_bytes_is_empty")
class TakesLengthZeroForNone(OtherRanges):
    def other(self, offset, length):
        return ByteRange(offset, length or 1 << 20)


@reported_by("test_range_past_the_end_is_truncated")
class RefusesRangesPastTheEnd(ShelfStorage):
    def read(self, key, byte_range=None, version=None):
        if byte_range and sum(byte_range) > self.stat(key).size:
            raise self.error(StorageUnavailableError, key, "is too short")
        return super().read(key, byte_range, version)


@reported_by("test_range_past_the_end_is_truncated")
class FillsRangesPastTheEnd(ShelfStorage):
    def read(self, key, byte_range=None, version=None):
        read = super().read(key, byte_range, version)
        return read._replace(data=read.data.ljust(byte_range.length, b"\0")) if byte_range else read


class OtherReadRanges(ShelfStorage):
    def read_ranges(self, key, byte_ranges, version=None):
        return self.other(key, list(byte_ranges), version)

    def each(self, key, byte_ranges, version):
        return super().read_ranges(key, byte_ranges, version)


@reported_by("test_read_ranges_equals_single_reads")
class SortsRanges(OtherReadRanges):
    def other(self, key, byte_ranges, version):
        return self.each(key, sorted(byte_ranges), version)


@reported_by("test_read_ranges_equals_single_reads")
class ReadsEqualRangesOnce(OtherReadRanges):
    def other(self, key, byte_ranges, version):
        return self.each(key, dict.fromkeys(byte_ranges), version)


@reported_by("test_read_ranges_equals_single_reads")
class MergesAdjacentRanges(OtherReadRanges):
    def other(self, key, byte_ranges, version):
        merged = []
        for offset, length in byte_ranges:
            if merged and sum(merged[-1]) == offset:
                merged[-1] = ByteRange(merged[-1].offset, merged[-1].length + length)
            else:
                merged.append(ByteRange(offset, length))
        return self.each(key, merged, version)


@reported_by("test_read_ranges_equals_single_reads")
class DropsEmptyRanges(OtherReadRanges):
    def other(self, key, byte_ranges, version):
        return [read for read in self.each(key, byte_ranges, version) if read.data]


@reported_by("test_read_ranges_equals_single_reads")
class ReadsAtMost256Ranges(OtherReadRanges):
    def other(self, key, byte_ranges, version):
        return self.each(key, byte_ranges[:256], version)


@reported_by("test_read_ranges_equals_single_reads")
class YieldsRanges(OtherReadRanges):
    def other(self, key, byte_ranges, version):
        return iter(self.each(key, byte_ranges, version))


@reported_by("test_no_ranges_are_no_reads")
class TakesNoRangesForAll(OtherReadRanges):
    def other(self, key, byte_ranges, version):
        return self.each(key, byte_ranges, version) or [self.read(key, None, version)]


@reported_by("test_ranges_may_be_in_any_sequence")
class TakesListsOnly(ShelfStorage):
    def read_ranges(self, key, byte_ranges, version=None):
        return super().read_ranges(key, byte_ranges + [], version)  # noqa: RUF005


# ---------------------------------------------------------------- versions


@reported_by("test_version_is_stable_until_the_object_changes")
class NewVersionPerRead(Changed):
    def changed(self, read):
        return read._replace(version=uuid.uuid4().hex)


@reported_by("test_version_is_stable_until_the_object_changes", "test_other_versions_are_refused")
class NoVersions(ShelfStorage):
    def read(self, key, byte_range=None, version=None):
        return super().read(key, byte_range)._replace(version=None)

    def stat(self, key):
        return ObjectStat(super().stat(key).size)


class OtherVersions(ShelfStorage):
    """Has other versions; `version_of` is overridden."""

    def _facts(self, descriptor):
        size, version, modified = super()._facts(descriptor)
        return size, self.version_of(size, version, modified), modified


@reported_by("test_new_version_of_equal_size_is_noticed")
class VersionIsConstant(OtherVersions):
    def version_of(self, size, version, modified):
        return "1"


@reported_by("test_new_version_of_equal_size_is_noticed")
class VersionIsTheSize(OtherVersions):
    def version_of(self, size, version, modified):
        return str(size)


@reported_by("test_new_version_of_equal_size_is_noticed")
class VersionIsTheHour(OtherVersions):
    def version_of(self, size, version, modified):
        return f"{modified // 3600:.0f}"


@reported_by("test_stat")
class EmptyVersions(OtherVersions):
    def version_of(self, size, version, modified):
        return ""


@reported_by("test_other_versions_are_refused")
class IgnoresVersions(ShelfStorage):
    def check_version(self, key, found, wanted):
        pass


@reported_by("test_other_versions_are_refused")
class IgnoresVersionsOfWholeObjects(ShelfStorage):
    def read(self, key, byte_range=None, version=None):
        return super().read(key, byte_range, version if byte_range else None)


@reported_by("test_other_versions_are_refused")
class IgnoresVersionsOfEmptyRanges(ShelfStorage):
    def read(self, key, byte_range=None, version=None):
        empty = byte_range is not None and byte_range.length == 0
        return super().read(key, byte_range, None if empty else version)


@reported_by("test_other_versions_are_refused")
class IgnoresEmptyVersions(ShelfStorage):
    def check_version(self, key, found, wanted):
        super().check_version(key, found, wanted or None)


@reported_by("test_other_versions_are_refused")
class TakesStarForAnyVersion(ShelfStorage):
    def check_version(self, key, found, wanted):
        super().check_version(key, found, None if wanted == "*" else wanted)


@reported_by("test_other_versions_are_refused")
class IgnoresVersionsOfRanges(OtherReadRanges):
    def other(self, key, byte_ranges, version):
        return self.each(key, byte_ranges, None)


@reported_by("test_other_versions_are_refused")
class TakesChangedForAbsent(ShelfStorage):
    def check_version(self, key, found, wanted):
        if wanted not in (None, found):
            raise self.error(ObjectNotFoundError, key, "does not exist in this version")


@reported_by("test_other_versions_are_refused")
class TakesChangedForUnavailable(ShelfStorage):
    def check_version(self, key, found, wanted):
        if wanted not in (None, found):
            raise self.error(StorageUnavailableError, key, "was replaced")


@reported_by("test_replaced_object_is_not_read_as_the_old_version")
class ChecksVersionsOnce(Remembering):
    def check_version(self, key, found, wanted):
        if self.known.setdefault(key, found) != wanted:
            super().check_version(key, found, wanted)


@reported_by("test_replaced_object_is_not_read_as_the_old_version")
class ChangedWithoutKey(ShelfStorage):
    def check_version(self, key, found, wanted):
        if wanted not in (None, found):
            raise ObjectChangedError("replaced", storage=self.full_name)


@reported_by("test_object_written_again_has_its_own_bytes")
class RemembersDeletedVersions(Remembering):
    def stat(self, key):
        facts = super().stat(key)
        return ObjectStat(facts.size, self.known.setdefault(key, facts.version))


# ---------------------------------------------------------------- threads


@reported_by("test_versions_are_never_mixed_while_an_object_is_replaced")
class ReadsTheVersionLater(ShelfStorage):
    def read(self, key, byte_range=None, version=None):
        read = super().read(key, byte_range, version)
        time.sleep(0.001)
        return read._replace(version=self.stat(key).version)


@reported_by("test_versions_are_never_mixed_while_an_object_is_replaced")
class ChecksTheVersionBefore(ShelfStorage):
    def read(self, key, byte_range=None, version=None):
        self.check_version(key, self.stat(key).version, version)
        time.sleep(0.001)
        return super().read(key, byte_range)


@reported_by("test_versions_are_never_mixed_while_an_object_is_replaced")
class StatTears(ShelfStorage):
    def stat(self, key):
        size = super().stat(key).size
        time.sleep(0.001)
        return ObjectStat(size, super().stat(key).version)


@reported_by("test_ranges_are_never_mixed_while_an_object_is_replaced")
class RangesTear(OtherReadRanges):
    def other(self, key, byte_ranges, version):
        if not byte_ranges:
            return []
        first = self.read(key, byte_ranges[0], version)
        time.sleep(0.001)
        reads = self.each(key, byte_ranges[1:], None)
        return [first, *(read._replace(version=first.version) for read in reads)]


@reported_by("test_many_threads")
class SharesTheKey(ShelfStorage):
    def read(self, key, byte_range=None, version=None):
        self.key = key
        time.sleep(0)
        return super().read(self.key, byte_range, version)


@reported_by("test_many_threads")
class SharesABuffer(ShelfStorage):
    def read(self, key, byte_range=None, version=None):
        self.last = super().read(key, byte_range, version)
        time.sleep(0)
        return self.last


@reported_by("test_many_threads")
class RangesShareTheKey(ShelfStorage):
    def read_ranges(self, key, byte_ranges, version=None):
        self.key = key
        time.sleep(0)
        return [self.read(self.key, byte_range, version) for byte_range in byte_ranges]


@reported_by("test_stat_and_exists_in_many_threads")
class RaceInStat(ShelfStorage):
    def stat(self, key):
        self.facts = super().stat(key)
        time.sleep(0)
        return self.facts


@reported_by("test_stat_and_exists_in_many_threads")
class RaceInExists(ShelfStorage):
    def exists(self, key):
        self.found = super().exists(key)
        time.sleep(0)
        return self.found


@reported_by("test_many_threads")
class BelongsToOneThread(ShelfStorage):
    def __init__(self, container):
        super().__init__(container)
        self.thread = None

    def read(self, key, byte_range=None, version=None):
        self.thread = self.thread or threading.get_ident()
        if threading.get_ident() != self.thread:
            raise RuntimeError("created in another thread")
        return super().read(key, byte_range, version)


@reported_by("test_many_threads")
class AllowsFewThreads(ShelfStorage):
    def __init__(self, container):
        super().__init__(container)
        self.places = threading.Semaphore(4)

    def read(self, key, byte_range=None, version=None):
        if not self.places.acquire(blocking=False):
            raise self.error(StorageUnavailableError, key, "is not read: too many reads")
        try:
            time.sleep(0.001)
            return super().read(key, byte_range, version)
        finally:
            self.places.release()


@reported_by("test_many_threads")
class HangsInThreads(ShelfStorage):
    def __init__(self, container):
        super().__init__(container)
        self.busy = threading.Lock()

    def read(self, key, byte_range=None, version=None):
        if not self.busy.acquire(blocking=False):
            threading.Event().wait()
        try:
            time.sleep(0.001)
            return super().read(key, byte_range, version)
        finally:
            self.busy.release()


# ---------------------------------------------------------------- forks


@reported_by("test_child_process_can_read")
class BelongsToOneProcess(ShelfStorage):
    def __init__(self, container):
        super().__init__(container)
        self.process = os.getpid()

    def read(self, key, byte_range=None, version=None):
        if os.getpid() != self.process:
            raise self.error(StorageUnavailableError, key, "belongs to another process")
        return super().read(key, byte_range, version)


@reported_by("test_every_method_works_in_a_child_process")
class StatBelongsToOneProcess(ShelfStorage):
    def __init__(self, container):
        super().__init__(container)
        self.process = os.getpid()

    def stat(self, key):
        return super().stat(key) if os.getpid() == self.process else None


@reported_by("test_fork_while_other_threads_read")
class LocksAcrossForks(ShelfStorage):
    def __init__(self, container):
        super().__init__(container)
        self.lock = threading.Lock()

    def read(self, key, byte_range=None, version=None):
        with self.lock:
            time.sleep(0.001)
            return super().read(key, byte_range, version)


@reported_by("test_parent_and_child_read_at_the_same_time")
class SharesThePositionAcrossForks(ShelfStorage):
    def __init__(self, container):
        super().__init__(container)
        self.lock = threading.Lock()
        self.descriptor = None
        os.register_at_fork(after_in_child=self._renew)

    def _renew(self):
        self.lock = threading.Lock()

    def read(self, key, byte_range=None, version=None):
        if byte_range is None:
            return super().read(key, byte_range, version)
        with self.lock:
            if self.descriptor is None:
                self.descriptor = leak(self.path(key))
            os.lseek(self.descriptor, byte_range.offset + 32, os.SEEK_SET)
            time.sleep(0.0005)
            data = os.read(self.descriptor, byte_range.length)
        return ObjectRead(data, self.stat(key).version)


@reported_by("test_close_in_a_child_process_leaves_the_parent_alone")
class ChildClosesForTheParent(ShelfStorage):
    def __init__(self, container):
        super().__init__(container)
        self.session = os.path.join(container, f"session-{uuid.uuid4().hex}")
        Path(self.session).touch()

    def read(self, key, byte_range=None, version=None):
        if not os.path.exists(self.session):
            raise self.error(StorageUnavailableError, key, "is not read: the session is over")
        return super().read(key, byte_range, version)

    def close(self):
        with suppress(FileNotFoundError):
            os.unlink(self.session)


@reported_by("test_child_process_can_read")
class DiesInAChild(ShelfStorage):
    def __init__(self, container):
        super().__init__(container)
        self.process = os.getpid()

    def read(self, key, byte_range=None, version=None):
        if os.getpid() != self.process:
            os._exit(0 if key is None else 11)
        return super().read(key, byte_range, version)


# ---------------------------------------------------------------- faults


class Failing(ShelfStorage):
    """Treats failures in another way; `failed` is overridden."""

    kinds: ClassVar[tuple[type[StorageError], ...]] = (StorageUnavailableError,)
    methods: ClassVar[tuple[str, ...]] = ("read", "stat", "exists", "read_ranges")

    def __getattribute__(self, name):
        found = super().__getattribute__(name)
        if name not in type(self).methods:
            return found

        def call(*arguments):
            try:
                return found(*arguments)
            except type(self).kinds as error:
                return self.failed(error)

        return call


@reported_by("test_unreachable_store_is_reported")
class FailedDoesNotExist(Failing):
    methods = ("exists",)

    def failed(self, error):
        return False


@reported_by("test_invalid_credentials_are_refused")
class RefusedDoesNotExist(FailedDoesNotExist):
    kinds = (AccessDeniedError,)


@reported_by("test_silent_store_is_reported")
class SilentDoesNotExist(Failing):
    methods = ("exists",)

    def failed(self, error):
        if "in time" in str(error):
            return False
        raise error


@reported_by("test_unreachable_store_is_reported")
class FailedExists(Failing):
    methods = ("exists",)

    def failed(self, error):
        return True


@reported_by("test_unreachable_store_is_reported")
class FailedIsAbsent(Failing):
    methods = ("read",)

    def failed(self, error):
        raise self.error(ObjectNotFoundError, "?", "does not exist") from error


@reported_by("test_unreachable_store_is_reported")
class FailedIsEmpty(Failing):
    methods = ("stat",)

    def failed(self, error):
        return ObjectStat(0)


@reported_by("test_unreachable_store_is_reported")
class FailedHasNoRanges(Failing):
    methods = ("read_ranges",)

    def failed(self, error):
        return []


@reported_by("test_unreachable_store_is_reported")
class SleepsBeforeItFails(Failing):
    def failed(self, error):
        time.sleep(0.2)
        raise error


@reported_by("test_unreachable_store_is_reported")
class FailedWithErrorOfTheSystem(Failing):
    def failed(self, error):
        raise ConnectionRefusedError(111, "Connection refused")


@reported_by("test_unreachable_store_is_reported")
class FailedWithoutStorage(Failing):
    def failed(self, error):
        raise StorageUnavailableError("no answer")


@reported_by("test_unreachable_store_is_reported")
class FailedIsRefused(Failing):
    def failed(self, error):
        raise self.error(AccessDeniedError, "?", "may not be read")


@reported_by("test_invalid_credentials_are_refused")
class RefusedIsUnavailable(Failing):
    kinds = (AccessDeniedError,)

    def failed(self, error):
        raise self.error(StorageUnavailableError, "?", "cannot be read")


@reported_by("test_invalid_credentials_are_refused")
class RefusedIsAbsent(Failing):
    kinds = (AccessDeniedError,)

    def failed(self, error):
        raise self.error(ObjectNotFoundError, "?", "does not exist")


@reported_by("test_silent_store_is_reported")
class WaitsForSilence(Failing):
    def failed(self, error):
        threading.Event().wait()


@reported_by("test_outage_is_reported_until_it_is_over")
class RemembersOutages(Failing):
    failure: StorageError | None = None

    def failed(self, error):
        type(self).failure = error
        raise error

    def path(self, key):
        if self.failure is not None:
            raise self.failure
        return super().path(key)


@reported_by("test_outage_is_reported_until_it_is_over")
class AnswersFromMemory(Remembering):
    def read(self, key, byte_range=None, version=None):
        try:
            self.known[key, byte_range] = super().read(key, byte_range, version)
        except StorageUnavailableError:
            if (key, byte_range) not in self.known:
                raise
        return self.known[key, byte_range]


# ---------------------------------------------------------------- hangs


@reported_by("test_whole_object")
class HangsOnRead(ShelfStorage):
    def read(self, key, byte_range=None, version=None):
        threading.Event().wait()


@reported_by("test_absent_object_is_reported_by_name")
class HangsOnAbsence(Absent):
    def absent(self, key, error):
        threading.Event().wait()


@reported_by("test_whole_object")
class HangsOnOpen(ShelfStorage):
    def __init__(self, container):
        super().__init__(container)
        threading.Event().wait()


@reported_by("test_whole_object")
class HangsOnClose(ShelfStorage):
    def close(self):
        threading.Event().wait()


@reported_by("test_fork_while_other_threads_read", "test_child_process_can_read")
class HangsInChildren(ShelfStorage):
    def __init__(self, container):
        super().__init__(container)
        self.process = os.getpid()

    def read(self, key, byte_range=None, version=None):
        if os.getpid() != self.process:
            threading.Event().wait()
        return super().read(key, byte_range, version)


# ---------------------------------------------------------------- writes


@reported_by("test_the_driver_names_its_writer")
class NamesNoWriter(ShelfStorage):
    writer = None


@reported_by("test_written_object_is_read")
class WritesNothingEmpty(ShelfStorage):
    def write(self, key, data, *, only_if_absent=False):
        if data:
            return super().write(key, data, only_if_absent=only_if_absent)
        return None


@reported_by("test_written_object_is_read")
class ReturnsAnotherVersion(ShelfStorage):
    def write(self, key, data, *, only_if_absent=False):
        super().write(key, data, only_if_absent=only_if_absent)
        return "1"


@reported_by("test_written_object_replaces")
class Appends(ShelfStorage):
    def write(self, key, data, *, only_if_absent=False):
        old = self.read(key).data if self.exists(key) else b""
        return super().write(key, data + old[len(data) :], only_if_absent=only_if_absent)


@reported_by("test_written_object_replaces")
class WritesOnce(ShelfStorage):
    def write(self, key, data, *, only_if_absent=False):
        if only_if_absent or not self.exists(key):
            return super().write(key, data, only_if_absent=only_if_absent)
        return None


@reported_by("test_existing_object_is_not_replaced_if_unwanted")
class ReplacesAlways(ShelfStorage):
    def write(self, key, data, *, only_if_absent=False):
        return super().write(key, data)


@reported_by("test_one_of_many_creates_an_object")
class LooksBeforeItWrites(ShelfStorage):
    def write(self, key, data, *, only_if_absent=False):
        if only_if_absent and self.exists(key):
            raise FileExistsError(key)
        time.sleep(0.01)
        return super().write(key, data)


@reported_by("test_deleted_object_is_absent")
class DeletesNothing(ShelfStorage):
    def delete(self, key):
        pass


@reported_by("test_deleted_object_is_absent")
class DeletesOnlyWhatIsThere(ShelfStorage):
    def delete(self, key):
        os.unlink(self.path(key))
        super().delete(key)


@reported_by("test_objects_are_listed_by_prefix")
class ListsEverything(ShelfStorage):
    def list(self, prefix):
        yield from super().list("")


@reported_by("test_objects_are_listed_by_prefix")
class ListsOneLevel(ShelfStorage):
    def list(self, prefix):
        yield from (key for key in super().list(prefix) if "/" not in key[len(prefix) :])


@reported_by("test_listed_versions_are_those_of_the_objects")
class ListsQuotedVersions(ShelfStorage):
    def list_versions(self, prefix):
        return ((key, f'"{self.stat(key).version}"') for key in self.list(prefix))


@reported_by("test_object_in_parts_is_complete_or_absent")
class JoinsPartsAsTheyCome(ShelfStorage):
    def __init__(self, container):
        super().__init__(container)
        self.written = b""

    def write_part(self, key, upload, number, data):
        self.written += data
        return super().write_part(key, upload, number, data)

    def complete_parts(self, key, upload, parts):
        return self.write(key, self.written)


@reported_by("test_object_in_parts_is_complete_or_absent")
class ShowsUnfinishedParts(ShelfStorage):
    def write_part(self, key, upload, number, data):
        self.write(key, data)
        return super().write_part(key, upload, number, data)


@reported_by("test_child_process_can_write")
class WritesInOneProcess(ShelfStorage):
    def __init__(self, container):
        super().__init__(container)
        self.process = os.getpid()

    def write(self, key, data, *, only_if_absent=False):
        if os.getpid() == self.process:
            return super().write(key, data, only_if_absent=only_if_absent)
        return None


# ---------------------------------------------------------------- sequences


@reported_by("test_any_sequence_of_operations")
class RemembersAbsenceUntilRead(Remembering):
    def exists(self, key):
        self.known[key] = self.known.get(key, True) and super().exists(key)
        return self.known[key]

    def read(self, key, byte_range=None, version=None):
        self.known.pop(key, None)
        return super().read(key, byte_range, version)


@reported_by("test_any_sequence_of_operations")
class MixesUpOldVersions(Remembering):
    def read(self, key, byte_range=None, version=None):
        try:
            return super().read(key, byte_range, version)
        except ObjectChangedError:
            # The bytes of the present version, in the name of an old one.
            if self.known.get("misses", 0) > 0:
                return super().read(key, byte_range)._replace(version=version)
            self.known["misses"] = self.known.get("misses", 0) + 1
            raise


@reported_by("test_any_sequence_of_operations")
class CountsAsVersions(Remembering):
    """Numbers the versions of a key again after a deletion."""

    def _facts(self, descriptor):
        size, version, modified = super()._facts(descriptor)
        seen = self.known.setdefault("seen", [])
        if version not in seen:
            seen.append(version)
        return size, str(seen.index(version) % 3), modified


def limits(driver: type[ShelfStorage]) -> dict[str, float]:
    """Return the limits of time for a wrong driver, in seconds."""
    waits = "Hangs" in driver.__name__ or driver in (WaitsForSilence, LocksAcrossForks)
    return {"patience": 0.2, "time_limit": 1.0 if waits else 60.0}


globals().update(WRONG.test_classes(TestRight, "driver", limits))
