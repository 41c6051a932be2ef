"""Layers of which nobody can guess anything: names, titles, pixels, heights; views and their keys.

A name, a title or a word of another server begins with ``zq``, and the secret half of a key with
``zkey``: so all that answers contain of them is found without a comparison with each of them.
"""

from __future__ import annotations

import json
import random
import re
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
from tests.access.identification.conftest import Credentials

from mastaba_access.keystore.form import ALPHABET, check_of, new_id
from mastaba_access.keystore.record import record_from
from mastaba_writer.installation import layer_document, write_installation
from mastaba_writer.pyramids import LevelPlan, write_pyramid
from mastaba_writer.tile_matrix_sets import web_mercator
from mastaba_writer.vector_tile_writer import Feature, encode_vector_tile

WORD: Final = re.compile(rb"zq[0-9a-f]{18}", re.IGNORECASE)
HEIGHT: Final = re.compile(rb"(?<![0-9.])[12][0-9]{4}\.5(?![0-9])")
OF_KEYS: Final = re.compile(rb"zkey[0-9a-z]{24}|mk_[0-9a-z]{8}")
"""The secret half of a key, and its beginning with the id."""

KINDS: Final = ("RGB_PNG", "RGB_JPG", "GREY_PNG", "FLOAT32_ZIP", "VECTOR", "EXTERNAL")
"""The last one has the pixels of the first, and asks another WMS about features."""
_FORMATS: Final = {
    "RGB_PNG": ("TIFF_PNG_UINT8", 3),
    "RGB_JPG": ("TIFF_JPG_UINT8", 3),
    "GREY_PNG": ("TIFF_PNG_UINT8", 1),
    "FLOAT32_ZIP": ("TIFF_ZIP_FLOAT32", 1),
    "VECTOR": ("TIFF_PBF_MVT", 0),
    "EXTERNAL": ("TIFF_PNG_UINT8", 3),
}
_LEVELS: Final = (LevelPlan("2", 1, 1, 2, 2), LevelPlan("3", 2, 3, 4, 5))
_TABLE: Final = {
    "name": "places",
    "geometry": "POINT",
    "attributes": [{"name": "name", "type": "String", "count": 1}],
}


def word() -> str:
    """Return a word that nobody can guess, and that `WORD` finds."""
    return f"zq{secrets.token_hex(9)}"


def key() -> str:
    """Return a new key whose secret half `OF_KEYS` finds."""
    text = f"mk_{new_id()}_zkey" + "".join(secrets.choice(ALPHABET) for _ in range(22))
    return text + check_of(text)


class SecretLayer:
    """A layer that is the same everywhere, unlike all others.

    Args:
        number: of the layer.
        chance: colours and heights that others have not got.

    Attributes:
        name: identifier.
        words: whatever must not be read by those who do not see it, its height too.
        colour: of all pixels: red, green, blue.
        height: in metres.
    """

    def __init__(self, number: int, chance: Chance) -> None:
        self.kind = KINDS[number % len(KINDS)]
        self.name, self.title, self.elsewhere = word(), word(), word()
        self.colour = chance.grey() if self.kind == "GREY_PNG" else chance.colour()
        self.height = chance.height()
        texts = self.name, self.title, self.elsewhere, str(self.height)
        self.words = frozenset(text.encode() for text in texts)

    def tile(self, level: str, row: int, column: int) -> Any:
        if self.kind == "VECTOR":
            place = Feature("POINT", [[(2048, 2048)]], {"name": self.title})
            return encode_vector_tile({"places": [place]})
        if self.kind == "FLOAT32_ZIP":
            return np.full((256, 256, 1), self.height, np.float32)
        channels = _FORMATS[self.kind][1]
        return np.broadcast_to(np.array(self.colour[:channels], np.uint8), (256, 256, channels))

    def document(self, pyramids: Path, upstream: str) -> dict[str, Any]:
        """Write the pyramid, and return the descriptor of the layer."""
        form, channels = _FORMATS[self.kind]
        descriptor = write_pyramid(
            pyramids,
            self.name,
            tile_matrix_set=web_mercator(),
            format=form,
            channels=channels,
            levels=_LEVELS,
            tile=self.tile,
            tables=[_TABLE],
        )
        more: dict[str, Any] = {}
        if self.kind == "EXTERNAL":
            names = {"layers": self.elsewhere, "query_layers": self.elsewhere}
            more["get_feature_info"] = {"type": "EXTERNALWMS", "url": upstream, **names}
        elif self.kind != "VECTOR":
            more = {"get_feature_info": {"type": "PYRAMID"}}
            more |= {"coverages": True, "wcs": {"enabled": True}}
        more |= {"abstract": self.title, "keywords": [self.title], "title": self.title}
        return layer_document(descriptor, cache_control="public, max-age=3600", **more)


class Chance:
    """What is different for each layer.

    Args:
        seed: of what need not be secret.
    """

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        steps = range(16, 256, 32)
        colours = [(r, g, b) for r in steps for g in steps for b in steps if len({r, g, b}) > 1]
        self._colours = self.random.sample(colours, len(colours))
        self._greys = self.random.sample(range(8, 248, 6), 40)
        self._heights = self.random.sample(range(10_000, 30_000), 1000)

    def colour(self) -> tuple[int, int, int]:
        return self._colours.pop()

    def grey(self) -> tuple[int, int, int]:
        level = self._greys.pop()
        return level, level, level

    def height(self) -> float:
        return self._heights.pop() + 0.5


class SecretWorld:
    """An installation, and what each view of it shows.

    Args:
        folder: for everything.
        seed: of what need not be secret.
        layers, views: how many.
        upstream: address of the WMS that some layers ask.

    Attributes:
        layers: by name.
        views: the names that the holder of a key may see, of two keys for each view; the empty key
            is the public.
        all_key: key of the view that shows all layers.
        operator: key of those who see the state of the server, and no layer.
    """

    def __init__(self, folder: Path, seed: int, layers: int, views: int, upstream: str) -> None:
        self.folder = folder
        chance = Chance(seed)
        found = [SecretLayer(number, chance) for number in range(layers)]
        self.layers = {one.name: one for one in found}
        self._documents = {one.name: one.document(folder / "pyramids", upstream) for one in found}
        self.credentials = Credentials(folder)
        self.views: dict[str, frozenset[str]] = {}
        self._rules: list[Mapping[str, Any]] = []
        names = list(self.layers)
        for number in range(views):
            # Most views are small: so most of everything is hidden.
            size = round((layers / 2) ** chance.random.random())
            self._add(number and f"view{number}", frozenset(chance.random.sample(names, size)))
        self.all_key = self._add("all", frozenset(names))
        status = {"abilities": ["status"]}
        self.operator = self._add("operators", frozenset(), status)

    def _add(self, group: str | int, own: frozenset[str], what: Any = None) -> str:
        """Add a view, for the public or for the holders of two keys; return one of them."""
        texts = [key(), key()] if group else [""]
        records = [record_from({"key": one, "groups": [group]}) for one in texts if one]
        self.credentials.store.save(records, "created")
        what = {"layers": sorted(own)} if what is None else what
        who = [f"group:{group}"] if group else ["anonymous"]
        self._rules.append({"name": str(group), "who": who, "what": what, "allow": {}})
        if own:
            self.views |= dict.fromkeys(texts, own)
        return texts[0]

    def section(self, **more: Any) -> dict[str, Any]:
        """Write the rules, and return the section ``plugins.access``."""
        file = self.folder / "rules.json"
        file.write_text(json.dumps({"default": "deny", "rules": self._rules}))
        return {"rules": str(file), **self.credentials.section(), **more}

    def write(self, **options: Any) -> Path:
        """Write the installation; see `write_installation`."""
        return write_installation(self.folder / "world", layers=self._documents, **options)
