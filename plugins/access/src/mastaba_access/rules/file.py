"""Loading of the file of rules."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from mastaba.api.catalogue import CRS
from mastaba.api.documents import (
    DocumentValidator,
    Faults,
    FileFaults,
    UnusableError,
    parse_document,
    read_local_text,
)
from mastaba.errors import ConfigurationError, MastabaError
from mastaba_access.rules.limits import Limit
from mastaba_access.rules.periods import Hours, Period, moment
from mastaba_access.rules.rates import Per, Rate, default_burst
from mastaba_access.rules.ruleset import Effect, Rule, RuleSet
from mastaba_access.rules.schema import ACCESS_SCHEMA
from mastaba_access.rules.what import PLAIN_ABILITIES, What
from mastaba_access.rules.who import Alternatives, Groups, parse_selectors

if TYPE_CHECKING:
    from mastaba_render.api.areas import Area

MOST_VERTICES: Final = 100_000
ABILITIES: Final = frozenset(
    (
        *("tiles", "maps", "info", "legend", "heights", "terrain", "pages", "coverages"),
        *("downloads", "status", "usage"),
    )
)
"""Words for what services do; services of plugins add theirs."""


def load_rules(file: str, abilities: Mapping[str, Sequence[str]], faults: Faults) -> RuleSet:
    """Read a file of rules, JSON or YAML, and the areas that it names.

    Args:
        abilities: those of each enabled service.
        faults: gets all problems.

    Raises:
        ConfigurationError: it cannot be used; contains all errors.
    """
    try:
        return _Loader(file, abilities, faults).load()
    except UnusableError:
        raise ConfigurationError(faults.errors) from None


class _Loader:
    def __init__(self, file: str, abilities: Mapping[str, Sequence[str]], faults: Faults) -> None:
        self._file = file
        self._abilities = abilities
        self._faults = FileFaults(faults, file)
        self._digest = hashlib.blake2b(digest_size=8)
        self._files: list[str] = []

    def load(self) -> RuleSet:
        document = self._document()
        areas = self._areas(document.get("areas", {}))
        groups = self._groups(document.get("groups", {}))
        rules = []
        for position, found in enumerate(document.get("rules", [])):
            with self._faults.attempt():
                rules.append(self._rule(found, f"$.rules[{position}]", areas))
        rates = []
        for position, found in enumerate(document.get("rates", [])):
            with self._faults.attempt():
                rates.append(self._rate(found, f"$.rates[{position}]"))
        for key in ("rules", "rates"):
            self._require_different_names(document.get(key, []), key)
        self._faults.require_usable()
        return RuleSet(
            document["default"] == "allow",
            tuple(rules),
            groups,
            areas,
            self._digest.hexdigest(),
            tuple(self._files),
            tuple(rates),
        )

    def _text(self, file: str, faults: FileFaults, remedy: str) -> str:
        self._files.append(file)
        try:
            text = read_local_text(file)
        except FileNotFoundError:
            faults.refuse("$", "does not exist", remedy)
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            faults.refuse("$", f"cannot be read: {reason}", remedy)
        self._digest.update(text.encode("utf-8", "surrogatepass"))
        return text

    def _document(self) -> dict[str, Any]:
        faults, all_faults = self._faults, self._faults.all
        text = self._text(self._file, faults, "correct plugins.access.rules of server.json")
        document = parse_document(text, self._file, all_faults)
        if document is None:
            raise UnusableError
        validator = DocumentValidator(dict(ACCESS_SCHEMA), is_strict=True)
        valid = validator.validate(document, self._file, all_faults)
        if valid is None:
            raise UnusableError
        return valid

    # ------------------------------------------------------------ areas

    def _areas(self, found: Mapping[str, Any]) -> dict[str, Area]:
        areas = {}
        for name, entry in found.items():
            with self._faults.attempt():
                areas[name] = self._area(entry, f"$.areas.{name}")
        vertices = sum(
            len(ring)
            for area in areas.values()
            for part in area.parts
            for polygon in part.polygons
            for ring in polygon
        )
        if vertices > MOST_VERTICES:
            reason = f"the areas have {vertices:,} vertices; {MOST_VERTICES:,} are allowed"
            self._faults.error("$.areas", reason, "simplify the polygons")
        return areas

    def _area(self, entry: Mapping[str, Any], path: str) -> Area:
        try:
            from mastaba_render.api.areas import Area
        except ImportError:
            reason = "areas are masked by mastaba-render, which is not installed"
            self._faults.refuse(path, reason, "install mastaba-render, or remove the areas")
        if ("path" in entry) == ("wkt" in entry) or ("crs" in entry) != ("wkt" in entry):
            reason = "must have the key 'path', or the keys 'wkt' and 'crs'"
            self._faults.refuse(path, reason, "name a GeoJSON file, or give WKT and its CRS")
        if "wkt" in entry:
            make = _of_wkt(Area, entry, self._faults, path)
        else:
            file = os.path.join(os.path.dirname(self._file), entry["path"])
            inside = FileFaults(self._faults.all, file)
            text = self._text(file, inside, f"correct {path}.path of {self._file}")
            document = parse_document(text, file, self._faults.all)
            if document is None:
                raise UnusableError
            make = lambda: Area.from_geojson(document)  # noqa: E731
        try:
            return make()
        except ValueError as error:
            remedy = "correct it; areas are polygons and multipolygons"
            self._faults.refuse(path, f"is not an area: {error}", remedy)

    # ------------------------------------------------------------ groups and rules

    def _groups(self, found: Mapping[str, Any]) -> Groups:
        groups: dict[str, Alternatives] = {}
        for name, selectors in found.items():
            with self._faults.attempt():
                groups[name] = self._selectors(selectors, f"$.groups.{name}")
        try:
            return Groups(groups)
        except ValueError as error:
            self._faults.error("$.groups", str(error), "remove one of the references")
            return Groups()

    def _selectors(self, found: Sequence[Any], path: str) -> Alternatives:
        parsed: list[Any] = []
        for position, item in enumerate(found):
            try:
                parsed += parse_selectors([item])
            except ValueError as error:
                remedy = "correct the selector"
                self._faults.error(f"{path}[{position}]", str(error), remedy)
        return tuple(parsed)

    def _rule(self, found: Mapping[str, Any], path: str, areas: Mapping[str, Area]) -> Rule:
        effects = [name for name in ("allow", "deny", "limit") if name in found]
        if len(effects) != 1:
            reason = "must have one of the keys 'allow', 'deny' and 'limit'"
            self._faults.refuse(path, reason, "write one rule for each effect")
        (effect,) = effects
        body = found[effect]
        what = self._what(found.get("what", {}), f"{path}.what", effect, body)
        limit = Limit() if effect == "deny" else self._limit(body, f"{path}.{effect}", areas)
        if limit.areas:
            self._require_whole_services(what, f"{path}.what.abilities")
        return Rule(
            found["name"],
            Effect(body.get("as", "hide") if effect == "deny" else effect),
            self._selectors(found["who"], f"{path}.who") if "who" in found else None,
            what,
            self._period(found, path),
            limit,
            body.get("cache") == "shared",
        )

    def _rate(self, found: Mapping[str, Any], path: str) -> Rate:
        if "rate" not in found and "quota" not in found:
            reason = "must have the key 'rate' or 'quota'"
            self._faults.refuse(path, reason, "say what may be asked for")
        if "burst" in found and "rate" not in found:
            self._faults.refuse(f"{path}.burst", "needs the key 'rate'", "add a rate")
        rate = float(found.get("rate", 0))
        return Rate(
            found["name"],
            Per(found["per"]),
            self._selectors(found["who"], f"{path}.who") if "who" in found else None,
            self._what(found.get("what", {}), f"{path}.what", "rate", {}),
            rate,
            float(found.get("burst", default_burst(rate))),
            found.get("quota", {}),
        )

    def _what(self, found: Mapping[str, Any], path: str, effect: str, body: Any) -> What:
        abilities = found.get("abilities")
        known = ABILITIES.union(*self._abilities.values())
        for position, word in enumerate(abilities or ()):
            if word not in known:
                remedy = f"use one of {', '.join(sorted(known))}"
                at = f"{path}.abilities[{position}]"
                self._faults.error(at, f"{word!r} is not an ability", remedy)
        if "layers" in found and PLAIN_ABILITIES.intersection(abilities or ()):
            reason = "status and usage do not belong to layers"
            self._faults.error(f"{path}.layers", reason, "write a rule without layers for them")
        if "styles" in found and (effect != "deny" or body.get("as") == "lock"):
            reason = "styles can only be hidden, by a rule that denies"
            self._faults.error(f"{path}.styles", reason, "remove the key, or deny")
        services, layers, styles = (
            tuple(found[name]) if name in found else None
            for name in ("services", "layers", "styles")
        )
        return What(services, layers, styles, None if abilities is None else frozenset(abilities))

    def _limit(self, body: Mapping[str, Any], path: str, areas: Mapping[str, Area]) -> Limit:
        if "area" in body and body["area"] not in areas and not self._faults.all.errors:
            reason = f"there is no area {body['area']!r}"
            self._faults.error(f"{path}.area", reason, "add it to areas, or correct its name")
        if "time" in body:
            self._parsed(lambda _: Limit.of({"time": body["time"]}), body["time"], f"{path}.time")
            if self._faults.all.errors:
                body = {key: value for key, value in body.items() if key != "time"}
        limit = Limit.of(body)
        if limit.is_empty:
            reason = "nothing is within these limits: a range ends before it starts"
            self._faults.error(path, reason, "write the smaller number first")
        return limit

    def _require_whole_services(self, what: What, path: str) -> None:
        if what.abilities is None:
            return
        for name, words in self._abilities.items():
            is_meant = what.services is None or any(
                one.partition("@")[0] in ("", name) for one in what.services
            )
            own = set(words) - PLAIN_ABILITIES
            if is_meant and own & what.abilities and not own <= what.abilities:
                reason = f"an area holds for all that the service {name!r} shows of a layer"
                listed = ", ".join(sorted(own - what.abilities))
                remedy = f"name services instead of abilities, or add {listed}"
                self._faults.refuse(path, reason, remedy)

    def _period(self, found: Mapping[str, Any], path: str) -> Period:
        limits = {}
        for key, name, parse in (
            ("from", "start", moment),
            ("until", "end", moment),
            ("hours", "hours", Hours.parse),
        ):
            if key in found:
                limits[name] = self._parsed(parse, found[key], f"{path}.{key}")
        period = Period(**{key: value for key, value in limits.items() if value is not None})
        if period.start >= period.end:
            self._faults.error(f"{path}.until", "is not after 'from'", "correct the dates")
        return period

    def _parsed(self, parse: Callable[[str], Any], text: str, path: str) -> Any:
        try:
            return parse(text)
        except ValueError as error:
            self._faults.error(path, f"{text!r} {error}", "correct it")
            return None

    def _require_different_names(self, rules: Sequence[Mapping[str, Any]], key: str) -> None:
        seen: dict[str, int] = {}
        for position, rule in enumerate(rules):
            first = seen.setdefault(rule["name"], position)
            if first != position:
                reason = f"the {key.removesuffix('s')} {first + 1} has the same name"
                self._faults.error(f"$.{key}[{position}].name", reason, "give it another name")


def _of_wkt(
    area: type[Area], entry: Mapping[str, Any], faults: FileFaults, path: str
) -> Callable[[], Area]:
    try:
        crs = CRS.from_code(entry["crs"])
    except (MastabaError, ValueError) as error:
        faults.refuse(f"{path}.crs", str(error), "write a code such as EPSG:2154")
    return lambda: area.from_wkt(entry["wkt"], crs)
