"""Wrong services: each has one bug, and names the test of the kit that must report it.

`test_wrong_plugins.py` runs this file in a process of its own.
"""

from __future__ import annotations

import json
import threading
import time
import traceback
import uuid
from dataclasses import replace
from typing import ClassVar

import pytest
from tests.conformance.pick import PickPlugin, PickService
from tests.conformance.wrong import WrongPlugins

import mastaba_render.plugin
from mastaba.errors import (
    AccessError,
    InvalidParameterError,
    RequestError,
    RestrictedCredentialError,
    SlabFormatError,
    StorageError,
    StorageUnavailableError,
    TileNotFoundError,
)
from mastaba.plugins.manager import Plugins
from mastaba.services.addresses import TileGroup, TilePaths
from mastaba.services.base import RootEntry, Service
from mastaba.tiles.stored import TilePublisher
from mastaba_conformance.services import ServiceTests
from mastaba_server.web.request import Request
from mastaba_server.web.response import Document, Response, message


class TableService(PickService):
    """Describes the addresses of its tiles."""

    column_first = True
    last_row = None

    def tile_addresses(self):
        return [TilePaths(self.group)]

    def group(self, base):
        _, layer, level = base.split("/")
        publisher = self.publishers.get((layer, level))
        if publisher is None:
            return None
        return TileGroup(publisher, self.column_first, last_row=self.last_row)


class TestRight(ServiceTests):
    service_class: type[Service] = TableService
    settings = {"greeting": "good <morning> & so on"}  # noqa: RUF012
    paths = ("", "?lang=fr", "/RGB_PNG", "/RGB_PNG/3/4/2", "/VECTOR/3/4/2")
    invalid_paths = ("?lang=xx", "/none", "/RGB_PNG/9/4/2", "/RGB_PNG/3/x/2", "/RGB_PNG/3/4/99")
    error_types = ("application/xml",)
    layer = "RGB_PNG"

    @pytest.fixture(scope="class")
    @classmethod
    def plugins(cls) -> Plugins:
        return Plugins(
            autoload=False,
            extra={"render": mastaba_render.plugin, "pick": PickPlugin(cls.service_class)},
        )


WRONG: WrongPlugins[type[PickService]] = WrongPlugins()
reported_by = WRONG.reported_by


# ---------------------------------------------------------------- declaration


@reported_by("test_class_attributes")
class NameInCapitals(PickService):
    name = "Pick"


@reported_by("test_class_attributes")
class RootPathWithoutSlash(PickService):
    default_root_path = "pick"


@reported_by("test_class_attributes")
class NoTitle(PickService):
    title = " "


@reported_by("test_class_attributes")
class MethodsInSmallLetters(PickService):
    allowed_methods = ("get",)


@reported_by("test_settings_have_schemas_and_descriptions")
class SettingWithoutDescription(PickService):
    settings_schema = {"greeting": {"type": "string"}}  # noqa: RUF012


@reported_by("test_settings_have_schemas_and_descriptions")
class DefaultOfAnotherType(PickService):
    settings_schema = {  # noqa: RUF012
        "greeting": {"type": "string", "default": 5, "description": "Text."}
    }


@reported_by("test_settings_are_optional")
class RefusesItsDefaults(PickService):
    def __init__(self, settings, site):
        super().__init__(settings, site)
        if settings.own["greeting"] == "hello":
            raise ValueError("the greeting is not set")


@reported_by("test_addresses_are_public")
class LocalAddress(PickService):
    def root_entry(self):
        return RootEntry(50, "Pick", "1.0", f"http://localhost{self.settings.root_path}")


# ---------------------------------------------------------------- routes


@reported_by("test_paths_are_answered")
class AnswersNothing(PickService):
    def respond(self, request):
        return Response(200, [("Content-Type", "application/xml")])


@reported_by("test_paths_are_answered")
class AnswersWithoutMediaType(PickService):
    def respond(self, request):
        response = super().respond(request)
        headers = [pair for pair in response.headers if pair[0] != "Content-Type"]
        return Response(response.status, headers, response.body)


@reported_by("test_paths_are_below_any_root_path")
class KnowsItsPath(PickService):
    def respond(self, request):
        path = request.environ["PATH_INFO"].removeprefix("/pick")
        return super().respond(Request(request.method, path, request.query_string, request.environ))


@reported_by("test_head_is_get_without_body")
class HeadIsAnotherDocument(PickService):
    def respond(self, request):
        if request.environ["REQUEST_METHOD"] == "HEAD":
            return Response(200, [])
        return super().respond(request)


@reported_by("test_unknown_paths_are_client_errors")
class AnswersEveryPath(PickService):
    def layer(self, name):
        return self.layers.get(name) or next(iter(self.layers.values()))


@reported_by("test_unknown_paths_are_client_errors")
class RedirectsUnknownPaths(PickService):
    def error_response(self, error, request):
        return Response(302, [("Location", self.settings.endpoint_uri)])


@reported_by("test_layers_may_be_hidden")
class PublishesAllLayers(PickService):
    def published_layers(self):
        return list(self.site.catalogue.layers.values())


@reported_by("test_layers_may_be_hidden")
class NamesAllLayers(PickService):
    def overview(self, language):
        return f"<pick lang='{language}'>{' '.join(self.site.catalogue.layers)}</pick>"


@reported_by("test_unknown_parameters_are_ignored")
class RefusesUnknownParameters(PickService):
    def respond(self, request):
        if set(request.query) - {"lang"}:
            raise InvalidParameterError("unknown parameter")
        return super().respond(request)


@reported_by("test_unknown_parameters_are_ignored")
class RepeatsTheQuery(PickService):
    def description(self, layer, request):
        text = json.dumps({"id": layer.id, "query": request.query_string})
        return Document(text, "application/json").respond(request)


# ---------------------------------------------------------------- errors


@reported_by("test_invalid_paths_are_client_errors")
class ClientErrorsAre500(PickService):
    def status_of(self, error):
        return 500


@reported_by("test_invalid_paths_are_client_errors")
class ErrorsAreJSON(PickService):
    def report(self, status, text):
        return message(status, json.dumps({"error": text}), "application/json")


@reported_by("test_invalid_paths_are_client_errors")
class MissingTilesAreEmpty(PickService):
    def respond(self, request):
        try:
            return super().respond(request)
        except RequestError:
            return Response(200, [("Content-Type", "image/png")], b"\x89PNG")


@reported_by("test_failing_storage_is_a_server_error")
class FailedTilesAreAbsent(PickService):
    def status_of(self, error):
        return 404 if isinstance(error, StorageError) else super().status_of(error)


@reported_by("test_failing_storage_is_a_server_error")
class FailedTilesAreEmpty(PickService):
    def tile(self, layer, level, column, row, request):
        try:
            return super().tile(layer, level, column, row, request)
        except StorageUnavailableError:
            return Response(200, [("Content-Type", "image/png")], b"\x89PNG")


@reported_by("test_failing_storage_is_a_server_error")
class DamagedSlabsAreNoContent(PickService):
    def tile(self, layer, level, column, row, request):
        try:
            return super().tile(layer, level, column, row, request)
        except SlabFormatError:
            return Response(204, [])


@reported_by("test_failing_storage_is_a_server_error")
class ErrorsFail(PickService):
    def error_response(self, error, request):
        if not isinstance(error, RequestError):
            raise error
        return super().error_response(error, request)


@reported_by("test_server_errors_disclose_nothing")
class ShowsMessages(PickService):
    def error_response(self, error, request):
        return self.report(self.status_of(error), str(error))


@reported_by("test_server_errors_disclose_nothing")
class ShowsTracebacks(PickService):
    def error_response(self, error, request):
        return self.report(self.status_of(error), "".join(traceback.format_exception(error)))


@reported_by("test_server_errors_disclose_nothing")
class ShowsNamesOfErrors(PickService):
    def error_response(self, error, request):
        return self.report(self.status_of(error), type(error).__name__)


@reported_by("test_client_errors_are_reported")
class ReportsSomeErrorsOnly(PickService):
    def status_of(self, error):
        return {"InvalidParameterError": 400, "UnknownNameError": 400}.get(
            type(error).__name__, 500
        )


@reported_by("test_client_errors_are_reported")
class ReturnsText(PickService):
    def error_response(self, error, request):
        return public_text(error)


def public_text(error):
    return f"<error>{len(str(error))}</error>"


@reported_by("test_texts_of_clients_are_escaped")
class DoesNotEscape(PickService):
    def report(self, status, text):
        return message(status, f"<error>{text}</error>", "application/xml")


@reported_by("test_texts_of_clients_are_escaped")
class LeavesControlCharacters(PickService):
    def report(self, status, text):
        text = text.replace("&", "&amp;").replace("<", "&lt;").encode("utf-8", "replace").decode()
        return message(status, f"<error>{text}</error>", "application/xml")


# ---------------------------------------------------------------- documents, caching


@reported_by("test_documents_are_well_formed")
class DoesNotEscapeSettings(PickService):
    def overview(self, language):
        return f"<pick lang='{language}'>{self.settings.own['greeting']}</pick>"


@reported_by("test_documents_are_well_formed")
class WritesPythonForJSON(PickService):
    def description(self, layer, request):
        return Document(str({"id": layer.id}), "application/json").respond(request)


@reported_by("test_documents_are_well_formed")
class WritesLocalAddresses(PickService):
    def overview(self, language):
        return f"<pick lang='{language}' href='http://localhost/pick'/>"


@reported_by("test_documents_are_well_formed")
class WritesLatin1(PickService):
    def overview(self, language):
        return f"<pick lang='{language}'>\xe9</pick>".encode("latin-1")


@reported_by("test_compressed_documents_are_the_same")
class CompressedWithTheSameETag(PickService):
    def respond(self, request):
        response = super().respond(request)
        response.headers = [
            (name, text.replace("-gz", "") if name == "ETag" else text)
            for name, text in response.headers
        ]
        return response

    def overview(self, language):
        return super().overview(language).replace("<pick>", "<pick>" + " " * 2000)


@reported_by("test_constant_documents_do_not_depend_on_headers")
class PromisesBothLanguages(PickService):
    def respond(self, request):
        if not request.path:
            language = "fr" if request.header("Accept-Language") == "fr" else "en"
            return self.documents[language].respond(request, is_constant=True)
        return super().respond(request)


@reported_by("test_etags_are_quoted_and_stable")
class ETagsWithoutQuotes(PickService):
    def respond(self, request):
        response = super().respond(request)
        response.headers = [
            (name, text.strip('"') if name == "ETag" else text) for name, text in response.headers
        ]
        return response


@reported_by("test_etags_are_quoted_and_stable")
class NewETagPerRequest(PickService):
    def description(self, layer, request):
        headers = [("ETag", f'"{uuid.uuid4().hex}"'), ("Content-Type", "application/json")]
        return Response(200, headers, b"{}")


@reported_by("test_etags_are_quoted_and_stable")
class NoETags(PickService):
    def description(self, layer, request):
        return message(200, "{}", "application/json")


@reported_by("test_different_answers_have_different_etags")
class OneETagForAll(PickService):
    def respond(self, request):
        response = super().respond(request)
        response.headers = [
            (name, '"1"' if name == "ETag" else text) for name, text in response.headers
        ]
        return response


@reported_by("test_unmodified_is_304")
class ComparesNoETags(PickService):
    def description(self, layer, request):
        headers = [("ETag", f'"{layer.id}"'), ("Content-Type", "application/json")]
        return Response(200, headers, b"{}")


@reported_by("test_unmodified_is_304")
class ComparesWholeHeaders(PickService):
    def description(self, layer, request):
        etag = f'"{layer.id}"'
        if request.header("If-None-Match") == etag:
            return Response(304, [("ETag", etag)])
        headers = [("ETag", etag), ("Content-Type", "application/json")]
        return Response(200, headers, b"{}")


@reported_by("test_other_etags_are_200")
class TakesAnyETag(PickService):
    def description(self, layer, request):
        if request.header("If-None-Match"):
            return Response(304, [("ETag", '"1"')])
        headers = [("ETag", '"1"'), ("Content-Type", "application/json")]
        return Response(200, headers, b"{}")


# ---------------------------------------------------------------- table


@reported_by("test_stored_tiles_are_answered_from_the_table")
class TransposedTable(TableService):
    column_first = False


@reported_by("test_stored_tiles_are_answered_from_the_table")
class TableFromTheBottom(TableService):
    last_row = 7


@reported_by("test_stored_tiles_are_answered_from_the_table")
class TableOfOtherTiles(TableService):
    def group(self, base):
        return super().group(base.replace("VECTOR", "RGB_PNG"))


@reported_by("test_stored_tiles_are_answered_from_the_table")
class TableWithOtherBases(TableService):
    def group(self, base):
        return super().group(f"/tiles{base}")


@reported_by("test_constant_documents_are_made_without_headers")
class ConstantPerTheme(PickService):
    def respond(self, request):
        if not request.path and request.header("X-Theme") == "dark":
            return Document("<dark/>", "application/xml").respond(request)
        return super().respond(request)


@reported_by("test_paths_are_answered")
class SetsCookies(PickService):
    def respond(self, request):
        response = super().respond(request)
        response.headers.append(("Set-Cookie", "seen=1"))
        return response


# ---------------------------------------------------------------- hostile, threads


@reported_by("test_strings_in_paths_and_parameters")
class ConvertsAnyNumber(PickService):
    def number(self, text):
        return int(text)


@reported_by("test_strings_in_paths_and_parameters")
class ConvertsAnyDigits(PickService):
    def number(self, text):
        if not text.isdigit() or len(text) > 10:
            raise InvalidParameterError("columns and rows are integers")
        return int(text)


@reported_by("test_strings_in_paths_and_parameters")
class ReadsAnyLanguage(PickService):
    def respond(self, request):
        if not request.path:
            return self.documents[request.query.get("lang", "en")].respond(request)
        return super().respond(request)


@reported_by("test_strings_in_paths_and_parameters")
class RepeatsLayersInHeaders(PickService):
    def layer(self, name):
        self.last = name
        return super().layer(name)

    def error_response(self, error, request):
        response = super().error_response(error, request)
        response.headers.append(("X-Path", request.path))
        return response


@reported_by("test_strings_in_paths_and_parameters")
class RepeatsPathsUnescaped(PickService):
    def error_response(self, error, request):
        return message(400, f"<error>{request.path}</error>", "application/xml")


@reported_by("test_queries_of_their_own")
class CountsParameters(PickService):
    def respond(self, request):
        if len(request.query) > 1000:
            raise RuntimeError("too many parameters")
        return super().respond(request)


@reported_by("test_headers")
class TrustsForwardedHosts(PickService):
    def description(self, layer, request):
        host = request.header("X-Forwarded-Host") or "public.example"
        return Document(json.dumps({"link": host}), "application/json").respond(request)


@reported_by("test_headers")
class ParsesCookies(PickService):
    def respond(self, request):
        dict(pair.split("=", 1) for pair in (request.header("Cookie") or "a=b").split(";"))
        assert "=" * 100 not in (request.header("Cookie") or "")
        return super().respond(request)


@reported_by("test_bodies")
class ParsesBodies(PickService):
    def respond(self, request):
        if request.method == "POST" and request.media_type == "application/json":
            json.loads(request.body())
        return super().respond(request)


# ---------------------------------------------------------------- hiding


@reported_by("test_a_hidden_layer_is_as_unknown")
class ForgetsItsView(PickService):
    def published_layers(self):
        return list((self.site.main or self.site).catalogue.layers.values())

    def __init__(self, settings, site):
        whole = (site.main or site).catalogue
        super().__init__(settings, replace(site, catalogue=whole))


@reported_by("test_a_hidden_layer_is_as_unknown")
class CountsEverything(PickService):
    def overview(self, language):
        count = len((self.site.main or self.site).catalogue.layers)
        return super().overview(language).replace("<pick>", f"<pick layers='{count}'>")


@reported_by("test_a_hidden_layer_is_as_unknown")
class SaysWhatIsForbidden(PickService):
    def layer(self, name):
        if name not in self.layers and name in (self.site.main or self.site).catalogue.layers:
            raise RestrictedCredentialError("you may not see this layer")
        return super().layer(name)


@reported_by("test_a_hidden_layer_is_as_unknown")
class SharesDocuments(PickService):
    shared: ClassVar = {}

    def respond(self, request):
        key = self.name, request.path, request.query_string
        if len(request.path.split("/")) == 2 and key in self.shared:
            return self.shared[key].respond(request)
        return super().respond(request)

    def description(self, layer, request):
        document = Document(json.dumps({"id": layer.id, "title": layer.title}), "application/json")
        self.shared[self.name, request.path, request.query_string] = document
        return document.respond(request)


@reported_by("test_a_locked_layer_gives_no_data")
class TakesLocksForGaps(PickService):
    def tile(self, layer, level, column, row, request):
        try:
            return super().tile(layer, level, column, row, request)
        except AccessError as error:
            raise TileNotFoundError("there is no tile") from error


@reported_by("test_a_layer_without_abilities_is_not_published")
class IgnoresAbilities(PickService):
    abilities = ("tiles",)

    def published_layers(self):
        return [
            layer
            for layer in self.site.catalogue.layers.values()
            if self.name not in layer.hidden_from
        ]


@reported_by("test_addresses_contain_the_credential")
class KnowsItsAddress(PickService):
    def overview(self, language):
        return (
            super()
            .overview(language)
            .replace(self.settings.endpoint_uri, "https://public.example/maps")
        )


@reported_by("test_many_threads")
class SharesTheRequest(PickService):
    def respond(self, request):
        self.request = request
        time.sleep(0.001)
        return super().respond(self.request)


@reported_by("test_many_threads")
class HangsInThreads(PickService):
    busy = threading.Lock()

    def respond(self, request):
        if not self.busy.acquire(blocking=False):
            threading.Event().wait()
        try:
            time.sleep(0.001)
            return super().respond(request)
        finally:
            self.busy.release()


@reported_by("test_paths_are_answered")
class Hangs(PickService):
    def respond(self, request):
        threading.Event().wait()


@reported_by("test_paths_are_answered")
class PublishesOneLevel(PickService):
    def __init__(self, settings, site):
        super().__init__(settings, site)
        self.publishers = {
            (layer.id, "2"): TilePublisher(layer, site.catalogue.readers[layer.id]["2"], None)
            for layer in self.layers.values()
        }


globals().update(
    WRONG.test_classes(
        TestRight,
        "service_class",
        lambda service: {"time_limit": 1.0 if "Hangs" in service.__name__ else 60.0},
    )
)
