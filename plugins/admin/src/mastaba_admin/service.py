"""The administration service: changes what all processes of the server publish."""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Mapping
from typing import Any, ClassVar

from mastaba.api.access import Operation
from mastaba.api.documents import Fault, Faults, Severity, parse_document
from mastaba.api.services import Action, Change, Service, ServiceSettings, Site
from mastaba.api.web import Request, Response, message
from mastaba.errors import ChangeRefusedError, ConfigurationError, RequestError
from mastaba_admin.errors import NotAuthorizedError, error_response
from mastaba_admin.keeping import keep, kept_layers, kept_virtual
from mastaba_admin.origin import check_json, check_same_origin
from mastaba_admin.routes import CHANGES, OF_VIRTUAL, Route, route
from mastaba_admin.secret import shows_secret
from mastaba_server.log import audit

logger = logging.getLogger(__name__)

_BODY = "the body"
_WITH_DOCUMENT = frozenset(
    (
        *(Action.CREATE_LAYER, Action.REPLACE_LAYER),
        *(Action.CREATE_VIRTUAL, Action.REPLACE_VIRTUAL),
    )
)


class AdminService(Service):
    """Creates, replaces and deletes layers, and turns services on and off.

    Raises:
        ConfigurationError: there is no secret, and the settings do not allow that.
    """

    name = "admin"
    rank = 20
    title = "Administration"
    is_viewed: ClassVar[bool] = False
    always_on: ClassVar[bool] = True
    allows_cors: ClassVar[bool] = False
    allowed_methods: ClassVar[tuple[str, ...]] = ("GET", "POST", "PUT", "DELETE")
    settings_schema: ClassVar[Mapping[str, Any]] = {
        "secret": {
            "type": "string",
            "default": "",
            "description": "Required value of the header X-Mastaba-Secret (or X-Rok4-Secret).",
        },
        "allow_without_secret": {
            "type": "boolean",
            "default": False,
            "description": "Start without a secret: anyone who reaches the path may change layers.",
        },
        "persist": {
            "type": "string",
            "minLength": 1,
            "description": "Directory where created and replaced layers and virtual services are "
            "saved. Without it, a reload discards them.",
        },
    }

    def __init__(self, settings: ServiceSettings, site: Site) -> None:
        super().__init__(settings, site)
        secret: str = settings.own.get("secret", "")
        if not secret and not settings.own.get("allow_without_secret", False):
            fault = Fault(
                Severity.ERROR,
                "services.json",
                "$.admin.secret",
                "is empty: anyone who can reach the service could change layers",
                "set a secret, or set admin.allow_without_secret to true",
            )
            raise ConfigurationError([fault])
        self._secret = secret

    @classmethod
    def kept_layers(cls, settings: ServiceSettings) -> Mapping[str, str]:
        directory = _directory(settings)
        return {} if directory is None else kept_layers(directory)

    @classmethod
    def kept_virtual(cls, settings: ServiceSettings) -> Mapping[str, str]:
        directory = _directory(settings)
        return {} if directory is None else kept_virtual(directory)

    @classmethod
    def keep(cls, settings: ServiceSettings, change: Change) -> None:
        directory = _directory(settings)
        if directory is not None:
            keep(directory, change)

    def respond(self, request: Request) -> Response:
        """Execute a request, and write a line of the audit log if it may change anything.

        Raises:
            NotAuthorizedError: it does not contain the secret, or there is none, and the operation
                needs one.
            CrossSiteError, MediaTypeError: there is no secret, and it may be of another site.
            UnknownPathError, UnsupportedMethodError: the path or method is not supported.
            RequestTooLargeError: the body is larger than 1 MiB.
        """
        status = 500
        try:
            response = self._execute(request)
            status = response.status
        except RequestError as error:
            status = error_response(error).status
            raise
        finally:
            if request.method != "GET":
                audit.record(
                    "administration",
                    method=request.method,
                    path=request.path[:200],
                    status=status,
                    address=request.environ.get("REMOTE_ADDR"),
                )
        return response

    def _execute(self, request: Request) -> Response:
        if not shows_secret(request, self._secret):
            raise NotAuthorizedError("Not authorized request")
        if not self._secret:
            check_same_origin(request, self.settings.endpoint_uri)
        found, identifier = route(self._routes(), request.method, request.path)
        if not self._secret and found.needs_secret:
            raise NotAuthorizedError("this needs admin.secret in services.json")
        try:
            return self._made(found.does, identifier, request)
        except ChangeRefusedError as error:
            # A normal response; raising would log it as a server error.
            if request.method != "GET":
                logger.warning("%s %s is refused: %s", request.method, request.path, error)
            return error_response(error)

    def _routes(self) -> list[Route]:
        gate = self.site.gate
        return [
            Route("GET", "", "", self._status),
            Route("GET", "/virtual", "List the virtual services", self._virtual, needs_secret=True),
            Route("GET", "/layers/{id}", "Describe a layer and its variants", self._layer),
            *CHANGES,
            *(
                Route(one.method, one.path, one.title, one, needs_secret=True)
                for one in (() if gate is None else gate.operations())
            ),
        ]

    def _made(self, does: Any, identifier: str, request: Request) -> Response:
        """Return the response to a request that may be executed.

        Raises:
            ChangeRefusedError: it does nothing.
        """
        if isinstance(does, Operation):
            # Many clients send no body with DELETE, and some an empty one.
            body = b"" if request.method == "GET" else request.body()
            return _json(does.run(self.site, identifier, _document(body) if body else None))
        if isinstance(does, Action):
            document = None
            if does in _WITH_DOCUMENT:
                if not self._secret:
                    check_json(request)
                document = _document(request.body())
            name = {"virtual" if does in OF_VIRTUAL else "layer": identifier}
            self.site.submit(Change(does, document=document, **name))
            return Response(202 if does is Action.RELOAD else 204, [])
        return _json(None if does is None else does(identifier))

    def error_response(self, error: Exception, request: Request) -> Response:
        return error_response(error)

    def _status(self, _identifier: str) -> dict[str, Any]:
        uri, catalogue = self.settings.endpoint_uri, self.site.catalogue
        return {
            "title": self.settings.title,
            "abstract": self.settings.abstract,
            "enabled": catalogue.settings.enabled,
            "layers": len(catalogue.layers),
            "links": [
                {
                    "method": one.method,
                    "href": uri + one.path,
                    "templated": "{" in one.path,
                    "title": one.title,
                }
                for one in self._routes()
                if one.title
            ],
        }

    def _layer(self, identifier: str) -> dict[str, Any]:
        """Return what this process knows of a layer.

        Raises:
            ChangeRefusedError: there is none.
        """
        catalogue = self.site.catalogue
        layer = catalogue.layers.get(identifier)
        if layer is None:
            raise ChangeRefusedError("unknown", f"there is no layer {identifier!r}")
        found = {
            "id": layer.id,
            "title": layer.title,
            "generation": layer.generation,
            "outdated": layer.id in catalogue.outdated_layers,
        }
        table = catalogue.variants.get(layer.id)
        states = {} if table is None else table.states()
        if not states:
            return found
        counts = dict.fromkeys(("known", "open", "faulty"), 0) | Counter(states.values())
        return {**found, "variants": {"count": len(states), **counts, "states": states}}

    def _virtual(self, _identifier: str) -> dict[str, Any]:
        catalogue = self.site.catalogue
        return {
            name: {
                "layers": list(one.layers),
                "exclusive": one.exclusive,
                "published": sum(map(one.includes, catalogue.layers.values())),
                "addresses": {
                    key: settings.endpoint_uri
                    for key, settings in one.services.items()
                    if not self.site.plugins.services[key].is_fallback
                },
            }
            for name, one in sorted(catalogue.virtual.items())
        }


def _directory(settings: ServiceSettings) -> str | None:
    directory: str | None = settings.own.get("persist")
    return directory if directory is None else directory.rstrip("/") or "/"


def _json(value: Any) -> Response:
    if value is None:
        return Response(204, [])
    response = message(200, json.dumps(value, ensure_ascii=False), "application/json")
    # It may contain a key.
    response.headers.append(("Cache-Control", "no-store"))
    return response


def _document(body: bytes) -> Any:
    """Parse the document in a body.

    Raises:
        ChangeRefusedError: it is not UTF-8, not JSON, or null.
    """
    try:
        text = body.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ChangeRefusedError("faulty", f"{_BODY} is not UTF-8 (byte {error.start})") from error
    faults = Faults()
    document = parse_document(text, _BODY, faults)
    if document is None:
        reasons = "; ".join(f"{f.file} {f.reason}" for f in faults.errors)
        raise ChangeRefusedError("faulty", reasons or f"{_BODY} is null")
    return document
