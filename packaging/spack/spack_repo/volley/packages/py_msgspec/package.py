"""msgspec, which Spack's own packages lack; see repo.yaml."""

from spack.package import *
from spack_repo.builtin.build_systems.python import PythonPackage


class PyMsgspec(PythonPackage):
    """A fast serialization and validation library, with builtin support for JSON."""

    homepage = "https://jcristharif.com/msgspec/"
    pypi = "msgspec/msgspec-0.18.6.tar.gz"

    license("BSD-3-Clause")

    version("0.18.6", sha256="a59fc3b4fcdb972d09138cb516dbde600c99d07c38fd9372a6ef500d2d031b4e")

    depends_on("c", type="build")
    depends_on("python@3.8:3.12", type=("build", "run"))
    depends_on("py-setuptools", type="build")
