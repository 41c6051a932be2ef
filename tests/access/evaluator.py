"""A second, independent evaluation of access rules, straight from the documents.

It reads the parsed file of rules and plain dictionaries, and imports nothing of the plugin.
"""

from __future__ import annotations

import fnmatch
import ipaddress
from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

NUMBERS = ("pixels", "width", "height", "layers", "points", "tiles")
WEEK = ["Mo", "Tu", "We", "Th", "Fr", "Sa", "Su"]
INFINITE = float("inf")


def who_matches(who: list[Any], visit: dict[str, Any], groups: dict[str, Any]) -> bool:
    for alternative in who:
        every = [alternative] if isinstance(alternative, str) else alternative
        if all(selector_matches(one, visit, groups) for one in every):
            return True
    return False


def selector_matches(text: str, visit: dict[str, Any], groups: dict[str, Any]) -> bool:
    if text.startswith("not:"):
        return not selector_matches(text[4:], visit, groups)
    kind, value = [*text.split(":", 1), ""][:2]
    shown = visit["principal"]
    seen = shown.get("issuer") or shown
    if kind in ("anonymous", "known"):
        return (shown["kind"] == "anonymous") == (kind == "anonymous")
    if kind == "strong":
        return bool(shown.get("strong", False))
    if kind == "key":
        return seen["kind"] == "key" and fnmatch.fnmatchcase(seen["id"], value)
    if kind == "label":
        return bool(seen["kind"] == "key" and seen.get("label") == value)
    if kind in ("user", "signed"):
        one = seen if kind == "user" else shown
        return bool(one["kind"] == kind and one["id"] == value)
    if kind == "group":
        if value in seen.get("groups", []):
            return True
        return value in groups and who_matches(groups[value], visit, groups)
    if kind == "claim":
        path, _, pattern = value.partition("=")
        node: Any = seen.get("claims", {})
        for step in path.split("."):
            if not isinstance(node, dict) or step not in node:
                return False
            node = node[step]
        for item in node if isinstance(node, list) else [node]:
            word = {True: "true", False: "false"}[item] if isinstance(item, bool) else str(item)
            if fnmatch.fnmatchcase(word, pattern):
                return True
        return False
    if kind == "address":
        address = visit["address"]
        return bool(address) and ipaddress.ip_address(address) in ipaddress.ip_network(value)
    if kind == "referer":
        host = visit["referer"].split("//")[-1].split("/")[0].split(":")[0].lower()
        return host != "" and fnmatch.fnmatchcase(host, value.lower())
    raise AssertionError(text)


def is_time(rule: dict[str, Any], at: float) -> bool:
    limits = [(-INFINITE, "from"), (INFINITE, "until")]
    low, high = (datetime.fromisoformat(rule[k]).timestamp() if k in rule else d for d, k in limits)
    if not low <= at < high:
        return False
    if "hours" not in rule:
        return True
    days, times, zone = rule["hours"].split()
    here = datetime.fromtimestamp(at, ZoneInfo(zone))
    start, end = times.split("-")
    clock = f"{here.hour:02}:{here.minute:02}"
    if start < end:
        return on_day(days, here) and start <= clock < end
    if clock >= start:
        return on_day(days, here)
    return clock < end and on_day(days, here - timedelta(days=1))


def on_day(days: str, when: datetime) -> bool:
    number = when.weekday()
    for part in days.split(","):
        low, high = WEEK.index(part[:2]), WEEK.index(part[-2:])
        if (low <= number <= high) if low <= high else (number >= low or number <= high):
            return True
    return False


def what_matches(
    what: dict[str, Any],
    service: str,
    virtual: str,
    layer: dict[str, Any],
    word: tuple[str, str | None],
    datasets: dict[str, list[str]],
) -> bool:
    if "services" in what:
        names = [f"{service}@{virtual}", f"@{virtual}"] if virtual else [service]
        if not any(name in what["services"] for name in names):
            return False
    if "abilities" in what and word[0] not in what["abilities"]:
        return False
    if "styles" in what and word[1] not in what["styles"]:
        return False
    for selector in what.get("layers", ["*"]):
        kind, colon, value = selector.partition(":")
        if colon and kind == "keyword":
            found = value in layer["keywords"]
        elif colon and kind == "dataset":
            found = layer["id"] in datasets.get(value, [])
        else:
            found = fnmatch.fnmatchcase(layer["id"], selector)
        if found:
            return True
    return False


def rules_of(document: dict[str, Any], visit: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the rules of the file with those of a signed address and a key in front."""
    shown, first = visit["principal"], []
    scope, own = shown.get("scope", {}), (shown.get("issuer") or shown).get("own", {})
    limit: dict[str, Any] = {}
    if "r" in scope:
        limit["resolution"] = scope["r"]
    if "b" in scope:
        limit["box"] = tuple(scope["b"])
    if limit:
        first.append({"limit": limit})
    if own.get("layers") or own.get("services"):
        what = {key: own[key] for key in ("layers", "services") if own.get(key)}
        body = {"area": own["area"]} if "area" in own else {}
        if not body or body["area"] in document.get("areas", {}):
            first.append({"what": what, "allow": body})
    return [*first, *document.get("rules", [])]


def evaluate(
    document: dict[str, Any],
    visit: dict[str, Any],
    at: float,
    service: str,
    virtual: str,
    layer: dict[str, Any],
    ability: str,
    style: str | None = None,
    datasets: dict[str, list[str]] | None = None,
) -> tuple[str, dict[str, Any]]:
    """Return ``allow``, ``hide`` or ``lock``, and the limits of what is allowed."""
    scope = visit["principal"].get("scope", {})
    if "l" in scope and layer["id"] not in scope["l"]:
        return "hide", {}
    if "s" in scope and (f"{service}@{virtual}" if virtual else service) not in scope["s"]:
        return "hide", {}
    bodies, decision = [], document["default"]
    for rule in rules_of(document, visit):
        if not is_time(rule, at):
            continue
        if "who" in rule and not who_matches(rule["who"], visit, document.get("groups", {})):
            continue
        what = rule.get("what", {})
        if not what_matches(what, service, virtual, layer, (ability, style), datasets or {}):
            continue
        if "deny" in rule:
            return rule["deny"].get("as", "hide"), {}
        bodies.append(rule.get("limit", rule.get("allow")))
        if "allow" in rule:
            decision = "allow"
            break
    if decision == "deny":
        return "hide", {}
    return together(bodies)


def together(bodies: list[dict[str, Any]]) -> tuple[str, dict[str, Any]]:
    result: dict[str, Any] = {"areas": set(), "boxes": set(), "cut": "", "formats": None}
    for name in ("resolution", "scale"):
        lows, highs = ([body[name][end] for body in bodies if name in body] for end in (0, 1))
        result[name] = max([0, *lows]), min([INFINITE, *highs])
        if result[name][0] > result[name][1]:
            return "hide", {}
    for name in NUMBERS:
        result[name] = min((body[name] for body in bodies if name in body), default=None)
    for body in bodies:
        result["areas"] |= {body["area"]} if "area" in body else set()
        result["boxes"] |= {body["box"]} if "box" in body else set()
        if "formats" in body:
            formats = {one.lower() for one in body["formats"]}
            result["formats"] = formats & (result["formats"] or formats)
            if not result["formats"]:
                return "hide", {}
    for cut in ("keep", "mask", "drop"):
        result["cut"] = cut if any(body.get("cut") == cut for body in bodies) else result["cut"]
    return "allow", result
