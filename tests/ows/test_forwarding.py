"""Feature info of another server without the HTTP client."""

from __future__ import annotations

import logging
import sys

import pytest

from mastaba.api.catalogue import FeatureInfo
from mastaba_ows.featureinfo.external import ExternalWMS, UpstreamError


def test_missing_http_client_is_an_error_of_the_upstream_server(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for name in [name for name in sys.modules if name.startswith("mastaba_http")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "mastaba_http", None)
    info = FeatureInfo(url="http://localhost:9", layers="a", query_layers="a")
    with caplog.at_level(logging.ERROR), pytest.raises(UpstreamError, match="cannot be asked"):
        ExternalWMS().ask(info, "text/plain", {})
    assert "install it" in caplog.text
