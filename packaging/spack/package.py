# Spack: <repository>/packages/zerohop/package.py, and the archive beside it.
import os

from spack.package import *


class Zerohop(CMakePackage):
    """Makes the MPI messages and collectives that never leave a node fast, under an unmodified program."""

    manual_download = True
    url = f"file://{os.path.dirname(__file__)}/zerohop-@VERSION@.tar.gz"

    license("BSD-3-Clause")
    version("@VERSION@", sha256="@SHA256@")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("cmake@3.22:", type="build")
    depends_on("mpi")  # whose binary interface is served
    depends_on("hwloc libs=shared,static")
    depends_on("highway", type="build")
    depends_on("fmt", type="build")
    depends_on("nlohmann-json", type="build")
    depends_on("cli11", type="build")
    depends_on("python@3.10:", type="run")

    generator("ninja")
    conflicts("%gcc@:11")

    def cmake_args(self):
        kind = "OMPI" if self.spec.satisfies("^[virtuals=mpi] openmpi") else "MPICH"
        return [
            self.define("ZH_BUILD_TESTS", False),
            self.define("ZH_BUILD_BENCH", False),
            self.define(f"ZH_{kind}_INCLUDE", self.spec["mpi"].prefix.include),
        ]
