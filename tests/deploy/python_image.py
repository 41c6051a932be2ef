"""The image of Python that the container image begins with: fetched, or made here."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

_NAMED = os.environ.get("MASTABA_TEST_PYTHON_IMAGE")
PYTHON = _NAMED or "docker.io/library/python:3.13-slim"
_OWN = "localhost/mastaba-python"
_PACKAGES = "ca-certificates,passwd,python3-pip,python3-venv,python-is-python3"
_AUTHORITIES = Path("/etc/ssl/certs/ca-certificates.crt")
_SETTINGS = {
    # pip of Debian leaves the interpreter of the system alone.
    "PIP_BREAK_SYSTEM_PACKAGES": "1",
    # Networks without a registry often have a certification authority of their own.
    "SSL_CERT_FILE": str(_AUTHORITIES),
    "NODE_EXTRA_CA_CERTS": str(_AUTHORITIES),
}


_FETCH = """
from urllib.request import urlopen
for url in ("https://pypi.org/simple/uv/", "https://registry.npmjs.org/zstddec"):
    urlopen(url, timeout=60).close()
"""


def buildah(*arguments: str | Path) -> str:
    """Return what buildah prints; fail with all of it."""
    done = subprocess.run(["buildah", *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return done.stdout.strip()


def python_image(folder: Path) -> str:
    """Return the name of an image with Python and pip.

    Where none can be fetched, it is made of Debian packages.

    Args:
        folder: for files on the way, about 250 MB.
    """
    if shutil.which("buildah") is None:
        pytest.skip("buildah is not installed")
    name = _fetched() or _made(folder)
    container = buildah("from", name)
    run = ("buildah", "run", "--isolation", "chroot", "--network", "host", container, "--")
    try:
        done = subprocess.run([*run, "/bin/true"], capture_output=True, text=True)
        if done.returncode:
            pytest.skip(f"this machine cannot run containers: {done.stderr[-500:]}")
        done = subprocess.run([*run, "python", "-c", _FETCH], capture_output=True, text=True)
        if "URLError" in done.stderr or "HTTPError" in done.stderr:
            pytest.skip(f"containers cannot fetch packages here: {done.stderr[-500:]}")
        assert done.returncode == 0, done.stderr
    finally:
        buildah("rm", container)
    return name


def _fetched() -> str:
    """Return the name of the image if it is here or can be fetched, or of the one made before."""
    for name, policy in ((PYTHON, "missing"), *([] if _NAMED else [(_OWN, "never")])):
        pull = ["buildah", "pull", "--policy", policy, name]
        if subprocess.run(pull, capture_output=True).returncode == 0:
            return name
    return ""


def _made(folder: Path) -> str:
    if _NAMED or shutil.which("mmdebstrap") is None or os.geteuid() != 0:
        pytest.skip(f"the image {PYTHON} cannot be fetched; to make one takes root and mmdebstrap")
    system = folder / "system.tar"
    command = ["mmdebstrap", "--variant=minbase", f"--include={_PACKAGES}", "bookworm", str(system)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"mmdebstrap: {done.stderr[-500:]}")
    name = buildah("from", "scratch")
    buildah("add", name, system, "/")
    buildah("copy", name, _AUTHORITIES, _AUTHORITIES)
    settings = [word for item in _SETTINGS.items() for word in ("--env", "=".join(item))]
    buildah("config", *settings, name)
    buildah("commit", name, _OWN)
    buildah("rm", name)
    system.unlink()
    return _OWN
