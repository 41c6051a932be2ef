"""Random rules, principals and requests, by seed."""

from __future__ import annotations

import random
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from mastaba.api.access import Principal
from mastaba_access.rules.who import Visit

LAYERS = [
    {"id": name, "keywords": words}
    for name, words in (
        ("ORTHO", ["open", "imagery"]),
        ("ORTHO_2", ["imagery"]),
        ("PLAN_A", ["open"]),
        ("PLAN_B", []),
        ("MNT", ["heights"]),
        ("MNT_FINE", ["heights", "secret"]),
        ("ROADS", ["vector"]),
        ("plan_a", []),
    )
]
DATASETS = {"relief": ["MNT_FINE", "MNT"]}
SERVICES = {
    "wms": ("maps", "info", "legend"),
    "wmts": ("tiles", "info", "legend"),
    "tms": ("tiles",),
    "ogcapi": ("tiles", "maps", "coverages"),
    "elevation": ("heights",),
    "viewer": ("pages",),
}
STYLES = ("normal", "grey", "hypso")
AREAS = {
    name: {"wkt": f"POLYGON((0 0, {size} 0, {size} {size}, 0 {size}, 0 0))", "crs": "CRS:84"}
    for name, size in (("small", 1), ("large", 9))
}
NOW = 1_795_600_000.0
"""25 November 2026, a Wednesday."""

_ADDRESSES = ("", "10.1.2.3", "10.200.0.1", "192.0.2.7", "2001:db8::1")
_REFERERS = (
    "",
    "https://maps.example.org/x?y",
    "http://portal.example.com:8080/",
    "https://EXAMPLE.org",
)


@dataclass(frozen=True)
class Seen:
    """A visit, for the plugin and for the evaluator."""

    visit: Visit
    document: dict[str, Any]


class World:
    """A source of random documents."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def some(self, values: Any, most: int = 3) -> list[Any]:
        values = list(values)
        return self.random.sample(values, self.random.randint(1, min(most, len(values))))

    def maybe(self, chance: float = 0.5) -> bool:
        return self.random.random() < chance

    # ---------------------------------------------------------------- rules

    def document(self) -> dict[str, Any]:
        groups: dict[str, Any] = {}
        for name in ("alsace", "staff", "both"):
            groups[name] = self.selectors(list(groups))
        return {
            "default": self.random.choice(("allow", "deny")),
            "areas": AREAS,
            "groups": groups,
            "rules": [self.rule(number) for number in range(self.random.randint(0, 8))],
        }

    def selectors(self, groups: list[str]) -> list[Any]:
        found: list[Any] = []
        for _ in range(self.random.randint(1, 3)):
            one = self.selector(groups)
            found.append([one, self.selector(groups)] if self.maybe(0.25) else one)
        return found

    def selector(self, groups: list[str]) -> str:
        choices = [
            *("anonymous", "known", "strong", "key:k1", "key:k*", "label:Partner", "user:anna"),
            *("group:town", "signed:s1", "address:10.0.0.0/8"),
            *("address:192.0.2.7", "address:2001:db8::/32", "referer:*.example.org"),
            *(
                "referer:portal.example.com",
                "claim:role=edit*",
                "claim:org.unit=7",
                "claim:ok=true",
            ),
            *(f"group:{name}" for name in groups),
        ]
        return ("not:" if self.maybe(0.15) else "") + self.random.choice(choices)

    def rule(self, number: int) -> dict[str, Any]:
        rule: dict[str, Any] = {"name": f"rule {number}"}
        if self.maybe(0.7):
            rule["who"] = self.selectors(["alsace", "staff", "both"])
        what: dict[str, Any] = {}
        if self.maybe(0.4):
            names = [*SERVICES, "wms@partner", "wmts@partner", "@partner", "@other"]
            what["services"] = self.some(names)
        if self.maybe(0.7):
            selectors = ["ORTHO", "ORTHO*", "PLAN_?", "*", "MNT*", "keyword:open", "dataset:relief"]
            what["layers"] = self.some([*selectors, "keyword:heights", "GONE", "[pP]*"])
        effect = self.random.choice(("allow", "deny", "limit"))
        body: dict[str, Any] = {}
        if effect == "deny":
            if self.maybe(0.4):
                body["as"] = self.random.choice(("lock", "hide"))
            elif self.maybe(0.3):
                what["styles"] = self.some(STYLES)
        else:
            body = self.limits()
        if "area" not in body and self.maybe(0.3):
            words = sorted({word for words in SERVICES.values() for word in words})
            what["abilities"] = self.some(words, 4)
        if what:
            rule["what"] = what
        if self.maybe(0.15):
            rule["from"] = self.random.choice(("2026-11-01T00:00:00Z", "2026-12-01T00:00:00+01:00"))
        if self.maybe(0.15):
            rule["until"] = self.random.choice(("2026-12-24T00:00:00Z", "2027-12-01T00:00:00Z"))
        if self.maybe(0.15):
            days = self.random.choice(("Mo-Fr", "Sa,Su", "Fr-Mo", "We", "Tu-Th,Su"))
            hours = self.random.choice(("08:00-18:00", "22:00-06:00", "00:00-24:00", "12:30-12:31"))
            rule["hours"] = f"{days} {hours} {self.random.choice(('Europe/Paris', 'UTC'))}"
        return {**rule, effect: body}

    def limits(self) -> dict[str, Any]:
        body: dict[str, Any] = {}
        if self.maybe(0.3):
            body["area"] = self.random.choice(tuple(AREAS))
        if self.maybe(0.3):
            body["cut"] = self.random.choice(("mask", "drop", "keep"))
        for name in ("resolution", "scale"):
            if self.maybe(0.25):
                body[name] = sorted(self.random.choices((0, 0.5, 2, 10, 100, 5000), k=2))
        for name in ("pixels", "width", "height", "layers", "points", "tiles"):
            if self.maybe(0.15):
                body[name] = self.random.randint(1, 5000)
        if self.maybe(0.25):
            body["formats"] = self.some(("image/png", "image/jpeg", "IMAGE/PNG", "image/webp"))
        return body

    # ---------------------------------------------------------------- visits

    def seen(self) -> Seen:
        address, referer = self.random.choice(_ADDRESSES), self.random.choice(_REFERERS)
        document = self.principal()
        visit = Visit(_principal(document), address, referer)
        return Seen(visit, {"principal": document, "address": address, "referer": referer})

    def principal(self, is_issuer: bool = False) -> dict[str, Any]:
        kinds = ("key", "user") if is_issuer else ("anonymous", "key", "key", "user", "signed")
        kind = self.random.choice(kinds)
        if kind == "anonymous":
            return {"id": "anonymous", "kind": kind}
        if kind == "key":
            found = {"id": self.random.choice(("k1", "k2", "x9")), "kind": kind}
            found |= {"label": self.random.choice(("", "Partner"))}
            if self.maybe(0.3):
                own: dict[str, Any] = {"layers": self.some(("ORTHO", "PLAN_*", "MNT"))}
                own |= {"services": self.some(SERVICES)} if self.maybe() else {}
                own |= {"area": self.random.choice((*AREAS, "gone"))} if self.maybe(0.4) else {}
                found["own"] = own
            return {**found, "groups": self.some(("town", "alsace")) if self.maybe() else []}
        if kind == "user":
            claims = [
                {"role": "editor"},
                {"role": ["read", "edit"]},
                {"org": {"unit": 7}},
                {"ok": True},
            ]
            found = {"id": self.random.choice(("anna", "bob")), "kind": kind}
            return {**found, "strong": self.maybe(), "claims": self.random.choice(claims)}
        scope: dict[str, Any] = {}
        if self.maybe():
            scope["l"] = self.some([layer["id"] for layer in LAYERS])
        if self.maybe(0.4):
            scope["s"] = self.some(SERVICES)
        if self.maybe(0.3):
            scope["b"] = [0, 0, self.random.randint(1, 5), 5]
        if self.maybe(0.3):
            scope["r"] = sorted(self.random.choices((0, 1, 20, 1000), k=2))
        found = {"id": self.random.choice(("s1", "s2")), "kind": kind, "scope": scope}
        return {**found, "issuer": self.principal(is_issuer=True)} if self.maybe() else found

    def moment(self) -> float:
        return NOW + self.random.randint(-20 * 86400, 20 * 86400)


def _principal(document: dict[str, Any]) -> Principal:
    issuer = document.get("issuer")
    return Principal(
        document["id"],
        document["kind"],
        label=document.get("label", ""),
        groups=frozenset(document.get("groups", ())),
        claims=document.get("claims", {}),
        is_strong=document.get("strong", False),
        own=document.get("own", {}),
        scope=document.get("scope", {}),
        issuer=None if issuer is None else _principal(issuer),
    )


def layers() -> dict[str, Any]:
    """Return stand-ins for layers, of which rules see identifier and keywords alone."""
    return {str(one["id"]): SimpleNamespace(keywords=tuple(one["keywords"])) for one in LAYERS}
