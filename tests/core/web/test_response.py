"""Documents, their compression, and the names under which answers are saved."""

from __future__ import annotations

import gzip

import pytest
from werkzeug.http import parse_options_header

from mastaba_server.web.request import Request
from mastaba_server.web.response import (
    Document,
    Response,
    accepts_coding,
    content_disposition,
    message,
    preferred_language,
    preferred_media_type,
)

TEXT = "<a>é</a>" * 200
XML = "application/xml"


def ask(**headers: str) -> Request:
    environ = {f"HTTP_{name.upper()}": value for name, value in headers.items()}
    return Request("GET", "", "", environ)


def header(response: Response, name: str) -> str | None:
    values = [value for key, value in response.headers if key == name]
    assert len(values) < 2, f"{name} is sent twice"
    return values[0] if values else None


def test_document_is_sent_in_utf_8_with_an_etag() -> None:
    response = Document(TEXT, XML).respond(ask())

    assert response.status == 200
    assert response.body == TEXT.encode()
    assert header(response, "Content-Type") == XML
    assert header(response, "Content-Encoding") is None
    etag = header(response, "ETag")
    assert etag is not None
    assert etag.startswith('"')


@pytest.mark.parametrize("accepted", ["gzip", "deflate, gzip;q=0.1", "GZIP", "*", "br, *;q=0.5"])
def test_document_is_compressed_for_a_client_that_takes_gzip(accepted: str) -> None:
    response = Document(TEXT, XML).respond(ask(accept_encoding=accepted))

    assert header(response, "Content-Encoding") == "gzip"
    assert gzip.decompress(response.body) == TEXT.encode()


@pytest.mark.parametrize(
    "accepted", ["", "identity", "gzip;q=0", "deflate", "*;q=0", "gzip;q=0, *", "x" * 5000]
)
def test_document_is_plain_for_a_client_that_takes_no_gzip(accepted: str) -> None:
    response = Document(TEXT, XML).respond(ask(accept_encoding=accepted))

    assert header(response, "Content-Encoding") is None
    assert response.body == TEXT.encode()


def test_short_document_is_not_compressed() -> None:
    response = Document("<a/>", XML).respond(ask(accept_encoding="gzip"))
    assert response.body == b"<a/>"


def test_compressed_and_plain_document_have_different_etags_and_vary() -> None:
    document = Document(TEXT, XML)
    plain, packed = document.respond(ask()), document.respond(ask(accept_encoding="gzip"))

    assert header(plain, "ETag") != header(packed, "ETag")
    for response in (plain, packed):
        assert "Accept-Encoding" in str(header(response, "Vary"))


def test_etag_changes_with_the_text() -> None:
    etags = {header(Document(TEXT + tail, XML).respond(ask()), "ETag") for tail in ("", "a", "b")}
    assert len(etags) == 3


@pytest.mark.parametrize("accepted", ["", "gzip"])
def test_known_document_is_not_sent_again(accepted: str) -> None:
    document = Document(TEXT, XML)
    first = document.respond(ask(accept_encoding=accepted))
    etag = str(header(first, "ETag"))

    again = document.respond(ask(accept_encoding=accepted, if_none_match=etag))
    assert (again.status, again.body) == (304, b"")
    assert header(again, "ETag") == etag
    assert header(again, "Vary") == header(first, "Vary")


@pytest.mark.parametrize(
    "known", ["W/{etag}", '"other", {etag}', '{etag} , W/"x"', "*", '"a,b", {etag}']
)
def test_etag_is_found_in_every_form_of_the_header(known: str) -> None:
    document = Document(TEXT, XML)
    etag = str(header(document.respond(ask()), "ETag"))

    assert document.respond(ask(if_none_match=known.replace("{etag}", etag))).status == 304


@pytest.mark.parametrize("known", ['"other"', "other", '"', ",,,", 'W/"', "\xff", '"' * 3000])
def test_other_etag_gets_the_document(known: str) -> None:
    assert Document(TEXT, XML).respond(ask(if_none_match=known)).status == 200


def test_error_message_has_no_validator() -> None:
    response = message(400, "no", "text/plain")
    assert header(response, "ETag") is None
    assert header(response, "Content-Disposition") == 'inline; filename="message.txt"'


@pytest.mark.parametrize(
    ("media_type", "name"),
    [
        ("image/tiff", "image.tif"),
        ("image/jpeg", "image.jpg"),
        ("image/png", "image.png"),
        ("image/x-bil;bits=32", "image.bil"),
        ("text/plain", "message.txt"),
        ("text/xml", "message.xml"),
        ("application/xml", "file.xml"),
        ("application/json", "file.json"),
        ("application/x-protobuf", "file.pbf"),
        ("application/octet-stream", "file"),
    ],
)
def test_answer_is_shown_inline_under_the_name_of_its_type(media_type: str, name: str) -> None:
    assert content_disposition(media_type) == f'inline; filename="{name}"'
    assert content_disposition(media_type, "") == f'inline; filename="{name}"'


@pytest.mark.parametrize(
    ("media_type", "name"), [("image/geotiff", "image.tif"), ("text/asc", "file.tif")]
)
def test_the_extension_is_that_of_the_encoder(media_type: str, name: str) -> None:
    assert content_disposition(media_type, extension="tif") == f'inline; filename="{name}"'


def test_name_of_the_client_makes_an_attachment() -> None:
    assert content_disposition("image/png", "My map-1.png") == 'attachment; filename="My map-1.png"'


@pytest.mark.parametrize(
    "name",
    [
        'a"; filename="evil.exe',
        "a\r\nSet-Cookie: x=1",
        "a\0b",
        "../../etc/passwd",
        "..\\..\\boot.ini",
        "a;b=c",
        "a\x7f\x80\u2028b",
        "caf\u00e9 \u20ac.png",
        "\U0001f5fa.png",
        "\udc80\ud800",
        "%0d%0a",
        "'a'",
        "x" * 100_000,
        '"\\/',
        "é" * 300,
        " ",
    ],
)
def test_hostile_file_name_makes_a_harmless_header(name: str) -> None:
    value = content_disposition("image/png", name)

    assert value.isascii()
    assert value.isprintable()
    assert "/" not in value
    assert "\\" not in value
    assert len(value) < 3000
    kind, options = parse_options_header(value)
    assert kind == "attachment"
    assert set(options) == {"filename"}


@pytest.mark.parametrize(
    ("name", "plain", "full"),
    [
        ("café €.png", "caf_ _.png", "café €.png"),
        ("a;b=c'd.png", "a_b_c_d.png", "a;b=c'd.png"),
        ("../../a.png", "....a.png", "....a.png"),
    ],
)
def test_name_beyond_ascii_is_given_in_both_forms(name: str, plain: str, full: str) -> None:
    value = content_disposition("image/png", name)

    assert value.startswith(f'attachment; filename="{plain}"')
    assert parse_options_header(value)[1]["filename"] == full


@pytest.mark.parametrize(
    ("accept", "chosen"),
    [
        (None, "text/html"),
        ("", "text/html"),
        ("*/*", "text/html"),
        ("application/json", "application/json"),
        ("application/json;q=0.5, text/html;q=0.4", "application/json"),
        ("text/*", "text/html"),
        ("image/png", None),
        ("application/json;q=0", None),
        (";;;q=,", None),
    ],
)
def test_media_type_that_the_client_likes_best_is_preferred(
    accept: str | None, chosen: str | None
) -> None:
    request = ask() if accept is None else ask(accept=accept)
    assert preferred_media_type(request, ["text/html", "application/json"]) == chosen


@pytest.mark.parametrize(
    ("header", "chosen"),
    [
        ("", "en"),
        ("fr", "fr"),
        ("fr-FR, en;q=0.5", "fr"),
        ("de, fr;q=0.8, en;q=0.9", "en"),
        ("FR-ca", "fr"),
        ("de", "en"),
        ("*", "en"),
        (";;q=x,", "en"),
    ],
)
def test_preferred_language(header: str, chosen: str) -> None:
    environ = {"HTTP_ACCEPT_LANGUAGE": header} if header else {}
    assert preferred_language(Request("GET", "/", "", environ), ("en", "fr")) == chosen


@pytest.mark.parametrize(
    "value", ["gzip;q=x", "gzip;q=2", "gzip;q=-1", ";", "gzip;;;", "=,=", "\0"]
)
def test_malformed_accept_encoding_is_no_error(value: str) -> None:
    assert isinstance(accepts_coding(ask(accept_encoding=value).environ, "gzip"), bool)
