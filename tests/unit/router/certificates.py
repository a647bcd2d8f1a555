"""Certificates for tests, each signed by itself; `openssl` makes them."""

import shutil
import ssl
import subprocess
from pathlib import Path

import pytest

_CONF = """\
[ca]
default_ca = own
[own]
database = index
serial = serial
new_certs_dir = .
default_md = sha256
policy = any
copy_extensions = copy
unique_subject = no
[any]
commonName = supplied
"""
_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")


def certificate(folder: Path, name: str, *, until: int = 2099) -> tuple[Path, ssl.SSLContext]:
    """Certificate of `name` (`IP:127.0.0.1`, `DNS:host`) until the year `until`, and a server's context with it."""
    program = shutil.which("openssl")
    if program is None:
        pytest.skip("no openssl on this machine")
    folder.mkdir()
    key, asked, made = folder / "key.pem", folder / "asked.pem", folder / "made.pem"
    (folder / "conf").write_text(_CONF)
    (folder / "index").write_text("")
    (folder / "serial").write_text("01\n")
    subject = ("-subj", f"/CN={folder.name}", "-addext", f"subjectAltName={name}")
    dates = ("-startdate", "20200101000000Z", "-enddate", f"{until}0101000000Z")
    for command in (
        ("req", "-new", *_KEY, "-keyout", key, "-out", asked, *subject),
        (
            "ca",
            "-selfsign",
            "-batch",
            "-notext",
            "-config",
            "conf",
            "-keyfile",
            key,
            "-in",
            asked,
            "-out",
            made,
            *dates,
        ),
    ):
        subprocess.run([program, *command], cwd=folder, check=True, capture_output=True, timeout=60)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(made, key)
    return made, context
