"""Check that the ``endpoint_uri`` of each service leads to that service.

The response from the public address is compared with that of the application in this process. If
they differ, it is also compared with those of the application to requests with another path, and
without the query, as a wrongly configured front server would send them. The mistake whose response
matches is reported.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit

from mastaba.api.documents import Fault, Severity
from mastaba.api.storages import Environment
from mastaba.errors import NoResponseError
from mastaba_doctor.addresses import is_default, is_http
from mastaba_doctor.answer import Answer, ask_inside
from mastaba_doctor.fetch import get

if TYPE_CHECKING:
    from wsgiref.types import WSGIApplication

    from mastaba.api.services import Service, Site

_THREADS: Final = 8
_UNKNOWN_PATH: Final = "/ a path that no service has"
_DOWN: Final = frozenset((502, 503, 504))


@dataclass(frozen=True, slots=True)
class _Probe:
    """One request to one service, from outside and inside."""

    service: Service
    url: str
    path: str
    query: str

    @property
    def below(self) -> str:
        """The part of the path after the root path of the service."""
        return self.path.removeprefix(self.service.settings.root_path)


def look_at_endpoints(
    site: Site,
    application: WSGIApplication,
    file: str,
    environment: Environment,
    *,
    is_running: bool = True,
) -> tuple[int, list[Fault]]:
    """Query every service at its public address; return how many, and the faults.

    Args:
        application: of the site.
        file: services.json, for the faults.
        is_running: whether the server is running. If not, a service that does not answer is
            not an error in the configuration.
    """
    faults: list[Fault] = []
    probes: list[_Probe] = []
    for service in site.services.values():
        probe = _probe(service)
        if probe is not None:
            probes.append(probe)
    ask = partial(_examined, site, application, file, environment, is_running)
    with ThreadPoolExecutor(_THREADS) as pool:
        for found in pool.map(ask, probes):
            faults += found
    return len(probes), faults


def _probe(service: Service) -> _Probe | None:
    """Return the request to a service; None if it is not public or has no address."""
    uri = service.settings.endpoint_uri
    if service.is_fallback or not is_http(uri) or (is_default(service) and service.always_on):
        return None
    entry = service.root_entry()
    rest = entry.href.removeprefix(uri) if entry and entry.href.startswith(uri) else ""
    below, _, query = rest.partition("?")
    path = service.settings.root_path + unquote(below)
    return _Probe(service, uri + rest, path or "/", query)


def _examined(
    site: Site,
    application: WSGIApplication,
    file: str,
    environment: Environment,
    is_running: bool,
    probe: _Probe,
) -> list[Fault]:
    service = probe.service
    severity = Severity.ERROR if is_running and not service.always_on else Severity.WARNING
    fault = partial(Fault, severity, file, f"$.{service.name}.endpoint_uri")
    try:
        found = get(probe.url, environment)
    except NoResponseError as error:
        remedy = (
            "check host, port and name, and that the front server is up"
            if is_running
            else "start the server, then check again"
        )
        return [fault(f"{probe.url} cannot be reached: {error}", remedy)]
    expected = ask_inside(application, probe.path, probe.query)
    if found.resembles(expected):
        return _differing(probe, found, expected, file)
    if found.location:
        return [fault(f"{probe.url} redirects to {found.location}", "write the final address")]
    if found.status in _DOWN and not _is_ours(found):
        remedy = (
            "check the address of the back end in the configuration of the front server"
            if is_running
            else "start the server, then check again"
        )
        return [fault(f"the front server of {probe.url} answers {found.status}", remedy)]
    # Many mistakes lead to no service at all; only the last of these is reported.
    *specific, no_service = _mistakes(site, application, probe)
    likely = [mistake for mistake in specific if not mistake[2].resembles(no_service[2])]
    likely = [mistake for mistake in (*likely, no_service) if found.resembles(mistake[2])]
    if likely:
        # An identical body decides between mistakes that lead to the same kind of document.
        same = (mistake for mistake in likely if mistake[2].body == found.body)
        reason, remedy, _ = next(same, likely[0])
        # The response is our own, so the server is running, whatever listens on the port.
        text = f"{probe.url} answers, but not as {service.name}: {reason}"
        return [Fault(Severity.ERROR, file, f"$.{service.name}.endpoint_uri", text, remedy)]
    return [
        fault(
            f"{probe.url} is answered by another program, with status {found.status}, "
            f"{found.media_type or 'no media type'}, where {expected.status}, "
            f"{expected.media_type} is expected",
            "check host and path, and that the front server passes that path on",
        )
    ]


def _differing(probe: _Probe, found: Answer, expected: Answer, file: str) -> list[Fault]:
    """Return a warning if a public document differs, that is, is of another configuration."""
    if probe.service.root_entry() is None or found.body == expected.body:
        return []
    return [
        Fault(
            Severity.WARNING,
            file,
            f"$.{probe.service.name}.endpoint_uri",
            f"{probe.url} answers from a configuration that differs from this one",
            "reload the server; or a cache in between has an older document",
        )
    ]


def _mistakes(
    site: Site, application: WSGIApplication, probe: _Probe
) -> Iterator[tuple[str, str, Answer]]:
    """Yield common mistakes in front servers: reason, remedy and resulting response."""
    root, query = probe.service.settings.root_path, probe.query
    inside = partial(ask_inside, application)
    if query:
        yield (
            "the query is missing",
            "pass on QUERY_STRING (nginx: include fastcgi_params)",
            inside(probe.path),
        )
    yield (
        f"the front server puts {root} before the path a second time",
        f"pass on {probe.path}, not {root}{probe.path}",
        inside(root + probe.path, query),
    )
    if probe.below:
        yield (
            "the front server cuts off what follows the root path",
            "pass on the whole path after the prefix",
            inside(root or "/", query),
        )
    yield (
        f"the front server removes {root}, which is the root path of the service",
        f"remove only what precedes {root} in the public address",
        inside(probe.below or "/", query),
    )
    for other in site.services.values():
        path = other.settings.root_path
        if other is not probe.service and not other.is_fallback:
            yield (
                f"{other.name} answers there",
                f"pass on {root}, not {path}",
                inside(path + probe.below, query),
            )
    public = unquote(urlsplit(probe.url).path)
    yield (
        "the front server passes on a path that no service has",
        f"the path that arrives must begin with {root}"
        + ("" if public == probe.path else f"; it may be {public}, with its prefix"),
        inside(_UNKNOWN_PATH),
    )


def _is_ours(answer: Answer) -> bool:
    """Return whether a 503 comes from services that are turned off."""
    return answer.media_type == "application/json" and b'"error_description"' in answer.body
