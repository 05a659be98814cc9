# Recipe for Spack, checked as docs/installing.md says.
from spack.package import *
from spack_repo.builtin.build_systems.cmake import CMakePackage


class Tutti(CMakePackage):
    """Collective communication for data-parallel training, with a launcher."""

    license("Apache-2.0")

    # Builds a clone with "spack dev-build"; releases are added here, with their checksums.
    version("main", branch="main")

    variant("mpi", default=True, description="ranks that are processes")
    variant("ucx", default=True, description="jobs without an MPI")
    variant("static", default=False, description="also build libtutti.a")
    variant("cuda", default=False, description="kernels that pack and scale on GPUs")
    variant("tests", default=False, description="build the tests")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("cmake@3.25:", type="build")
    depends_on("ninja", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("hwloc@2.1:")
    depends_on("jansson@2.7:")
    depends_on("libyaml")
    depends_on("mpi", when="+mpi")
    depends_on("ucx@1.12:", when="+ucx")
    depends_on("cuda", type="build", when="+cuda")  # nvcc; the driver is loaded at run time
    depends_on("cmocka", type="build", when="+tests")

    generator("ninja")

    def cmake_args(self):
        args = [
            self.define_from_variant("TUTTI_UCX", "ucx"),
            self.define_from_variant("TUTTI_STATIC", "static"),
            self.define_from_variant("TUTTI_TESTS", "tests"),
            self.define("TUTTI_MPI", "auto" if "+mpi" in self.spec else "off"),
            self.define("TUTTI_CUDA", "on" if "+cuda" in self.spec else "off"),
        ]
        if "+mpi" in self.spec:
            args.append(self.define("MPI_C_COMPILER", self.spec["mpi"].mpicc))
        return args
