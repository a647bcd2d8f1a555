"""Addresses as they are written: with brackets around those of version 6."""

import pytest

from cascadia.files.addresses import authority, http_url


@pytest.mark.parametrize(
    ("host", "written"),
    [
        ("::1", "[::1]:80"),
        ("[::1]", "[::1]:80"),
        ("fd00::1:8000", "[fd00::1:8000]:80"),
        ("127.0.0.1", "127.0.0.1:80"),
        ("engine.example", "engine.example:80"),
    ],
)
def test_an_address_of_version_6_stands_in_brackets(host: str, written: str) -> None:
    assert (authority(host, 80), http_url(host, 80)) == (written, f"http://{written}")
