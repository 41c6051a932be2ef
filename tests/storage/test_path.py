"""Paths of descriptors and other resources (pyramid.md section 1)."""

from __future__ import annotations

import pytest

from mastaba_storage.environment import Environment
from mastaba_storage.path import ResourcePath


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("file:///a/b.json", ("file", "", "/a/b.json")),
        ("file://a/b.json", ("file", "", "a/b.json")),
        ("/a/b.json", ("file", "", "/a/b.json")),
        ("b.json", ("file", "", "b.json")),
        ("C:/b.json", ("file", "", "C:/b.json")),
        ("s3://bucket/a/b.json", ("s3", "bucket", "a/b.json")),
        ("s3://bucket@host:9000/a/b.json", ("s3", "bucket@host:9000", "a/b.json")),
        ("s3://bucket//a", ("s3", "bucket", "/a")),
        ("ceph://pool/object", ("ceph", "pool", "object")),
        ("swift://container/a b", ("swift", "container", "a b")),
        ("http://host/x", ("http", "host", "x")),
    ],
)
def test_path_is_split_into_storage_container_and_name(
    text: str, parts: tuple[str, str, str]
) -> None:
    path = ResourcePath.parse(text)
    assert (path.storage, path.container, path.key) == parts


@pytest.mark.parametrize("text", ["", "file://", "s3://", "s3://bucket", "s3://bucket/", "s3:///x"])
def test_path_without_container_or_name_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"empty|form"):
        ResourcePath.parse(text)


@pytest.mark.parametrize("text", ["/a/b.json", "s3://bucket@host:9000/a/b.json", "b"])
def test_text_of_a_parsed_path_is_the_original(text: str) -> None:
    assert str(ResourcePath.parse(text)) == text
    assert ResourcePath.parse(str(ResourcePath.parse(f"file://{text}"))).storage in ("file", "s3")


@pytest.mark.parametrize(
    ("text", "directory", "stem"),
    [
        ("/a/b.json", "/a", "b"),
        ("/b.json", "/", "b"),
        ("b.yaml", ".", "b"),
        ("a/b", "a", "b"),
        ("a/b.c.YML", "a", "b.c"),
        ("s3://k/a/b.json", "a", "b"),
        ("a/.json", "a", ""),
    ],
)
def test_directory_and_stem_are_taken_from_the_name(text: str, directory: str, stem: str) -> None:
    path = ResourcePath.parse(text)
    assert (path.directory, path.stem) == (directory, stem)


def test_own_prefix_has_priority_over_that_of_existing_installations() -> None:
    environment = Environment({"ROK4_A": "old", "MASTABA_A": "new", "ROK4_B": "old"})
    assert environment.text("A") == "new"
    assert environment.text("B") == "old"
    assert environment.text("C") is None
    assert environment.text("C", "default") == "default"


def test_empty_variable_has_priority_over_one_with_the_other_prefix() -> None:
    assert Environment({"ROK4_A": "old", "MASTABA_A": ""}).text("A") == ""


@pytest.mark.parametrize(("value", "number"), [("7", 7), (" 8 ", 8), ("x", 3), ("", 3), ("1.5", 3)])
def test_variable_that_is_not_an_integer_means_the_default(value: str, number: int) -> None:
    assert Environment({"MASTABA_N": value}).integer("N", 3) == number


@pytest.mark.parametrize(
    ("value", "on"),
    [("1", True), ("yes", True), ("", False), ("0", False), ("False", False), (" no ", False)],
)
def test_flag_is_off_if_empty_or_negative(value: str, on: bool) -> None:
    assert Environment({"MASTABA_F": value}).flag("F") is on
    assert Environment({}).flag("F") is False


def test_list_is_split_at_commas_and_stripped_of_spaces() -> None:
    assert Environment({"ROK4_L": " a, b,,c "}).items("L") == ["a", "b", "c"]
    assert Environment({}).items("L") == []
