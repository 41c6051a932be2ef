"""Rules for the attributes of plugins: a check reports broken ones, and a server starts."""

from __future__ import annotations

import re
import sys

import pytest
from tests.core.plugins.conftest import Install
from tests.core.plugins.conftest import install as install
from tests.core.plugins.conftest import others as others
from tests.core.plugins.test_broken import check_message, encoder, returned, service, storage

from mastaba.commands.main import main

# code, part of the message (a regular expression)
BROKEN = {
    "name with slash": (service("name = 'a/b'"), "name of Wrong as 'a/b'"),
    "name with line feed": (service("name = 'a\\n'"), "letters, digits"),
    "empty title": (service("title = ' '"), "title of Wrong"),
    "root path with a query": (service("default_root_path = '/a?b'"), "default_root_path.*a.b"),
    "method in lower case": (service("allowed_methods = ('get',)"), "upper case"),
    "methods as text": (service("allowed_methods = 'GET'"), "tuple of methods"),
    "storage name in upper case": (storage("name = 'TAPE'"), "lower-case"),
    "storage name with a colon": (storage("name = 'tape:'"), "name of Wrong as 'tape:'"),
    "no media type": (encoder("media_type = 'gif'"), "media_type of Wrong as 'gif'"),
    "media type with line feed": (encoder("media_type = 'image/gif\\n'"), "media_type of Wrong"),
    "extension with a dot": (encoder("extension = '.gif'"), "without a dot"),
    "settings with a wrong default": (
        service("settings_schema = {'a': {'type': 'string', 'default': 5}}"),
        "default for 'a'",
    ),
    "words in upper case": (service("operations = ('GetMap',)"), "words in lower case"),
}


@pytest.mark.parametrize(("code", "part"), BROKEN.values(), ids=BROKEN.keys())
def test_broken_rule_is_reported_by_a_check_only(
    code: str, part: str, install: Install, capsys: pytest.CaptureFixture[str]
) -> None:
    install("wobbly", code)

    assert main(["schema", "server"]) == 0
    assert main(["plugins"]) == 0
    capsys.readouterr()
    assert main(["plugins", "--check"]) == 1
    (line,) = [x for x in capsys.readouterr().out.splitlines() if x.startswith("error: ")]
    check_message(line, part)


def test_right_plugins_break_no_rule(install: Install, capsys: pytest.CaptureFixture[str]) -> None:
    install("right", returned("storages", "[Tape]"))

    assert main(["plugins", "--check"]) == 0
    assert not re.search("^error:", capsys.readouterr().out, re.MULTILINE)


def test_a_check_without_the_kit_says_so(
    monkeypatch: pytest.MonkeyPatch, install: Install, capsys: pytest.CaptureFixture[str]
) -> None:
    install("wobbly", encoder("extension = '.gif'"))
    monkeypatch.setitem(sys.modules, "mastaba_conformance.plugin_rules", None)

    assert main(["plugins", "--check"]) == 0
    assert "install mastaba-conformance to check" in capsys.readouterr().err
