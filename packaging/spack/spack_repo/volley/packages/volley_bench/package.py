"""A Spack package; repo.yaml says how to use it and what was tried."""

from spack.package import *
from spack_repo.builtin.build_systems.cuda import CudaPackage
from spack_repo.builtin.build_systems.python import PythonPackage


class VolleyBench(PythonPackage, CudaPackage):
    """How fast processors and GPUs really talk to each other through MPI and CUDA, verified and explained."""

    git = "file:///path/to/volley"  # where your volley came from

    license("Apache-2.0")

    version("main", branch="main")

    variant("report", default=False, description="Install what `volley report` needs")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("cmake@3.25:", type="build")
    depends_on("ninja", type="build")
    # link: only then has the compiler its folder of headers
    depends_on("nlohmann-json@3.11:3", type=("build", "link"))
    depends_on("py-scikit-build-core@0.11.5:1", type="build")

    depends_on("python@3.10:", type=("build", "run"))
    depends_on("py-msgspec@0.18.6:", type=("build", "run"))
    depends_on("py-numpy@1.24:", type=("build", "run"))
    depends_on("py-rich@13.7:", type=("build", "run"))
    depends_on("py-shtab@1.3.4:", type=("build", "run"))
    depends_on("py-jinja2@3.1:", type="run", when="+report")
    depends_on("py-vl-convert-python@1.8:", type="run", when="+report")

    depends_on("mpi", type="run")
    depends_on("cuda@12:", when="+cuda")
    # nccl conflicts with cuda_arch=none, so each architecture asks for it by itself.
    for arch in CudaPackage.cuda_arch_values:
        depends_on(f"nccl cuda_arch={arch}", when=f"+cuda cuda_arch={arch}", type="run")
    conflicts("cuda_arch=none", when="+cuda", msg="say for which GPUs: cuda_arch=80,90")

    conflicts("%gcc@:10", msg="volley needs C++20")

    def setup_build_environment(self, env):
        # See build_backend/machine.py: an nvcc that is named is taken, and nothing comes from PyPI.
        if self.spec.satisfies("+cuda"):
            env.set("VOLLEY_CUDA", "ON")
            env.set("VOLLEY_CUDA_ARCHITECTURES", ";".join(self.spec.variants["cuda_arch"].value))
            env.set("CUDACXX", join_path(self.spec["cuda"].prefix.bin, "nvcc"))
        else:
            env.set("VOLLEY_CUDA", "OFF")
