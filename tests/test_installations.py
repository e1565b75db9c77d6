"""What the tests that install packages need of the site: its index, its proxy, its certificates."""

from __future__ import annotations

import pytest

import installations


def test_uv_gets_the_settings_of_pip(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SSL_CERT_FILE", "UV_DEFAULT_INDEX", "UV_INDEX", "PIP_EXTRA_INDEX_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_CERT", "/site.pem")
    monkeypatch.setenv("PIP_INDEX_URL", "https://mirror/simple")
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy:3128")
    found = installations.scrubbed()
    assert found["SSL_CERT_FILE"] == "/site.pem"
    assert found["UV_DEFAULT_INDEX"] == "https://mirror/simple"
    assert found["HTTPS_PROXY"] == "http://proxy:3128"
    monkeypatch.setenv("SSL_CERT_FILE", "/own.pem")
    assert installations.scrubbed()["SSL_CERT_FILE"] == "/own.pem"


def test_without_an_index_a_test_is_skipped_and_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setattr(installations, "package_index_error", installations.package_index_error.__wrapped__)
    with pytest.raises(pytest.skip.Exception, match="no package index can be reached"):
        installations.need_package_index()
