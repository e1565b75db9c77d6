# A Spack package: copy this file to packages/volley_bench/package.py of a repository (`spack repo create`), set `git`
# to where your volley came from, then `spack install volley-bench ^openmpi+cuda fabrics=ucx ^ucx+cuda`.
#
# Not tried: no Spack was at hand. Names of dependencies are those of the packages that volley requires on PyPI.
from spack.package import *
from spack_repo.builtin.build_systems.python import PythonPackage


class VolleyBench(PythonPackage):
    """How fast processors and GPUs really talk to each other through MPI and CUDA, verified and explained."""

    git = "file:///path/to/volley"

    license("Apache-2.0")

    version("main", branch="main")

    variant("cuda", default=True, description="Build the GPU transports")
    variant("report", default=False, description="Install what `volley report` needs")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("cmake@3.25:", type="build")
    depends_on("ninja", type="build")
    depends_on("nlohmann-json@3.11:3", type="build")
    depends_on("py-scikit-build-core@1.0:1", type="build")

    depends_on("python@3.10:", type=("build", "run"))
    depends_on("py-msgspec@0.18.6:", type=("build", "run"))
    depends_on("py-rich@13.7:", type=("build", "run"))
    depends_on("py-shtab@1.7:", type=("build", "run"))
    depends_on("py-jinja2@3.1:", type="run", when="+report")
    depends_on("py-vl-convert-python@1.8:", type="run", when="+report")

    depends_on("mpi", type="run")
    depends_on("cuda@12:", when="+cuda")

    conflicts("%gcc@:10", msg="volley needs C++20")

    def setup_build_environment(self, env):
        # See build_backend/machine.py: an nvcc that is named is taken, and nothing comes from PyPI.
        if self.spec.satisfies("+cuda"):
            env.set("VOLLEY_CUDA", "ON")
            env.set("VOLLEY_CUDA_ARCHITECTURES", "all")
            env.set("CUDACXX", join_path(self.spec["cuda"].prefix.bin, "nvcc"))
        else:
            env.set("VOLLEY_CUDA", "OFF")
