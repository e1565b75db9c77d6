"""packaging/Containerfile builds an image in which volley measures."""

import os
import re
import shutil
from pathlib import Path

import pytest

from installations import CHECKOUT, run, run_with_index

PROGRAMS = ("buildah", "mmdebstrap")
CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"
"""Those of this machine: packages may come through a proxy that signs with its own."""


@pytest.mark.long
@pytest.mark.timeout(3600)  # it compiles for every kind of GPU
def test_the_containerfile_makes_an_image_that_measures(tmp_path: Path) -> None:
    if os.geteuid() or not all(map(shutil.which, PROGRAMS)):
        pytest.skip(f"root, {' and '.join(PROGRAMS)} are needed")
    buildah = ["buildah", "--storage-driver", "vfs", "--root", tmp_path / "root", "--runroot", tmp_path / "run"]
    (base,) = set(re.findall(r"^FROM (\S+)", (CHECKOUT / "packaging/Containerfile").read_text(), re.MULTILINE))
    suite = base.partition(":")[2].removesuffix("-slim")
    run_with_index(["mmdebstrap", "--variant=minbase", "--include=ca-certificates", suite, tmp_path / "base.tar"])
    made = run([*buildah, "from", "scratch"]).strip()
    run([*buildah, "add", made, tmp_path / "base.tar", "/"])
    run([*buildah, "copy", made, CERTIFICATES, CERTIFICATES])
    run([*buildah, "config", "--env", f"PIP_CERT={CERTIFICATES}", made])
    run([*buildah, "commit", "--quiet", made, base])
    file = CHECKOUT / "packaging/Containerfile"
    build = [*buildah, "build", "--pull-never", "--isolation", "chroot", "--quiet", "--tag", "volley", "--file", file]
    run_with_index([*build, CHECKOUT])
    started = run([*buildah, "from", "--pull-never", "volley"]).strip()
    measured = ["volley", "pingpong", "-t", "host", "-s", "8", "--iterations", "5", "--launches", "1"]
    assert "Open MPI v5" in run([*buildah, "run", "--isolation", "chroot", started, "--", *measured])
