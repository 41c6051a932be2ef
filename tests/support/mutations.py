"""Texts that differ a little from another one."""

from __future__ import annotations

import random
from collections.abc import Iterator

_CHARACTERS = "0aZzl_-.~:$%&=+/ \0\n\x7féΩ💥ſ"


def mutations(text: str, count: int, seed: int) -> Iterator[str]:
    """Yield texts with one to four changes: characters, cuts, repetitions, case, other parts."""
    choose = random.Random(seed)
    for _ in range(count):
        changed = text
        while changed == text:
            for _ in range(choose.choice((1, 1, 1, 2, 4))):
                changed = _changed(changed, choose)
        yield changed


def _changed(text: str, choose: random.Random) -> str:
    start = choose.randint(0, len(text))
    end = min(len(text), start + choose.choice((1, 1, 2, 8, 64)))
    part, other = text[start:end], choose.choice(text or "x")
    match choose.randint(0, 9):
        case 0:
            return text[:start] + choose.choice(_CHARACTERS) + text[end:]
        case 1:
            return text[:start] + other + text[start + 1 :]
        case 2:
            return text[:start] + text[end:]
        case 3:
            return text[:start] + part * choose.choice((2, 3, 50)) + text[end:]
        case 4:
            return text[:start] + part.swapcase() + text[end:]
        case 5:
            return text[:start] + part[::-1] + text[end:]
        case 6:
            return text[:start]
        case 7:
            return text[start:] + text[:start]
        case 8:
            return text[:start] + other + text[start:]
        case _:
            position = choose.randrange(len(text)) if text else 0
            flipped = chr(ord(text[position]) ^ 1 << choose.randint(0, 6)) if text else "x"
            return text[:position] + flipped + text[position + 1 :]
