"""The administration service: changes what all processes of the server publish."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Any, ClassVar

from mastaba.api.documents import Fault, Faults, Severity, parse_document
from mastaba.api.services import Action, Change, Service, ServiceSettings, Site
from mastaba.api.web import Request, Response, message
from mastaba.errors import ChangeRefusedError, ConfigurationError
from mastaba_admin.errors import NotAuthorizedError, error_response
from mastaba_admin.keeping import keep, kept_layers
from mastaba_admin.origin import check_json, check_same_origin
from mastaba_admin.routes import route
from mastaba_admin.secret import shows_secret

logger = logging.getLogger(__name__)

_BODY = "the body"
_LINKS = (
    ("POST", "/layers/{id}", "Create a layer"),
    ("PUT", "/layers/{id}", "Replace a layer"),
    ("DELETE", "/layers/{id}", "Delete a layer"),
    ("PUT", "/on", "Turn services on"),
    ("PUT", "/off", "Turn services off"),
    ("PUT", "/reload", "Read the configuration again"),
    ("DELETE", "/indices", "Read the indices of replaced slabs again"),
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
            "description": "Directory where created and replaced layers are saved. "
            "Without it, a reload discards them.",
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
    def keep(cls, settings: ServiceSettings, change: Change) -> None:
        directory = _directory(settings)
        if directory is not None:
            keep(directory, change)

    def respond(self, request: Request) -> Response:
        """Execute a request.

        Raises:
            NotAuthorizedError: it does not contain the secret.
            CrossSiteError, MediaTypeError: there is no secret, and it may be of another site.
            UnknownPathError, UnsupportedMethodError: the path or method is not supported.
            RequestTooLargeError: the body is larger than 1 MiB.
        """
        if not shows_secret(request, self._secret):
            raise NotAuthorizedError("Not authorized request")
        if not self._secret:
            check_same_origin(request, self.settings.endpoint_uri)
        action, layer = route(request.method, request.path)
        if request.method == "GET":
            return message(200, json.dumps(self._status(), ensure_ascii=False), "application/json")
        try:
            if action in (Action.CREATE_LAYER, Action.REPLACE_LAYER):
                if not self._secret:
                    check_json(request)
                self.site.submit(Change(action, layer, _descriptor(request.body())))
            elif action is not None:
                self.site.submit(Change(action, layer))
        except ChangeRefusedError as error:
            # A normal response; raising would log it as a server error.
            logger.warning("%s %s is refused: %s", request.method, request.path, error)
            return error_response(error)
        return Response(202 if action is Action.RELOAD else 204, [])

    def error_response(self, error: Exception, request: Request) -> Response:
        return error_response(error)

    def _status(self) -> dict[str, Any]:
        uri, catalogue = self.settings.endpoint_uri, self.site.catalogue
        return {
            "title": self.settings.title,
            "abstract": self.settings.abstract,
            "enabled": catalogue.settings.enabled,
            "layers": len(catalogue.layers),
            "links": [
                {"method": method, "href": uri + path, "templated": "{" in path, "title": title}
                for method, path, title in _LINKS
            ],
        }


def _directory(settings: ServiceSettings) -> str | None:
    directory: str | None = settings.own.get("persist")
    return directory if directory is None else directory.rstrip("/") or "/"


def _descriptor(body: bytes) -> Any:
    """Parse a layer descriptor.

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
