"""What a decoder of parameters has learnt must never show in what it decodes."""

from __future__ import annotations

import random
from typing import Any

import pytest

from mastaba_server.transport.connection import MalformedError
from mastaba_server.transport.fastcgi.params import ParamsDecoder

NAMES = ["QUERY_STRING", "REQUEST_METHOD", "PATH_INFO", "HTTP_A", "HTTP_AB", "N" * 200, "", "Å"]
VALUES = ["", "GET", "é" * 60, "v" * 127, "v" * 128, "v" * 300, "\x01\x01ab", "x" * 66_000]


def decode(decoder: ParamsDecoder, data: bytes) -> dict[str, Any]:
    found: dict[str, Any] = {}
    decoder.decode(data, found)
    return found


@pytest.mark.parametrize("seed", range(20))
def test_any_sequence_of_requests_is_decoded_rightly(protocol: Any, seed: int) -> None:
    random_ = random.Random(seed)
    decoder = ParamsDecoder()
    params = {name: random_.choice(VALUES) for name in NAMES}
    for _ in range(500):
        action = random_.random()
        if action < 0.6:
            params[random_.choice(NAMES[:3])] = random_.choice(VALUES)
        elif action < 0.7:
            params.pop(random_.choice(NAMES), None)
        elif action < 0.8:
            names = random_.sample(sorted(params), len(params))
            params = {name: params[name] for name in names}
        assert decode(decoder, protocol.pairs(params)) == params


@pytest.mark.parametrize("repeated", [False, True])
def test_data_cut_short_is_refused(protocol: Any, repeated: bool) -> None:
    decoder = ParamsDecoder()
    params = {"QUERY_STRING": "q" * 200, "A": "b", "PATH_INFO": "/c"}
    if repeated:
        for number in range(200):
            params["QUERY_STRING"] = "q" * (120 + number % 20)
            params["PATH_INFO"] = f"/{number}"
            decode(decoder, protocol.pairs(params))
    data = protocol.pairs(params)
    whole = {0, len(data)}
    for count in (1, 2):
        whole.add(len(protocol.pairs(dict(list(params.items())[:count]))))
    for size in set(range(len(data))) - whole:
        with pytest.raises(MalformedError):
            decode(decoder, data[:size])


def test_constant_parameters_are_recognised_as_one(protocol: Any) -> None:
    decoder = ParamsDecoder()
    for number in range(200):
        constants = {f"C{index}": "constant" for index in range(20)}
        decode(decoder, protocol.pairs({"QUERY_STRING": f"q={number}", **constants}))
    assert len(decoder._plan) == 2


def test_names_that_clients_make_up_are_not_kept_for_ever(protocol: Any) -> None:
    decoder = ParamsDecoder()
    for number in range(4000):
        # Each name comes often enough to be seen with two values.
        names = [f"HTTP_X{number // 200}_{position}" for position in range(20)]
        params = dict.fromkeys(names, str(number))
        assert decode(decoder, protocol.pairs(params)) == params
    assert len(decoder._changing) <= 256
