#!/usr/bin/env python3
"""An installed copy, moved to another folder, does what the built one does.

    tests/install.py

Installs build/cmake/release into an empty root and moves it elsewhere. There a job under MPICH is served, and a C
program finds the engine's header and library by pkg-config and by CMake's package. Closing line:
`N passed, N failed, N skipped`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "dev"))

import hosts as mpi_hosts  # noqa: E402

BUILT = ROOT / "build" / "cmake" / "release"

EXCHANGE = """
#include <mpi.h>
#include <stdio.h>
int main(int argc, char **argv) {
  int rank, got = -1;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Sendrecv(&rank, 1, MPI_INT, !rank, 0, &got, 1, MPI_INT, !rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  printf("got %d\\n", got);
  MPI_Finalize();
  return 0;
}
"""
ENGINE = """
#include <stdio.h>
#include <zerohop/zerohop.h>
int main(void) {
  puts(zh_version());
  return 0;
}
"""
PROJECT = """
cmake_minimum_required(VERSION 3.22)
project(user LANGUAGES C)
find_package(zerohop {version} REQUIRED)
add_executable(user user.c)
target_link_libraries(user PRIVATE zerohop::p2p)
"""


class Wrong(Exception):
    """What a step has shown."""


def run(*command: str | Path, **env: str) -> str:
    words = [str(word) for word in command]
    done = subprocess.run(words, env={**os.environ, **env}, capture_output=True, text=True, timeout=300)
    if done.returncode != 0:
        raise Wrong(f"{' '.join(words)}: exit code {done.returncode}: {done.stdout[-600:]}{done.stderr[-600:]}")
    return done.stdout + done.stderr


def install(folder: Path) -> Path:
    run("cmake", "--install", BUILT, "--prefix", "/opt/zerohop", DESTDIR=str(folder / "root"))
    moved = folder / "elsewhere"
    shutil.move(folder / "root" / "opt" / "zerohop", moved)
    return moved


def a_job_is_served(folder: Path, tree: Path) -> None:
    host = mpi_hosts.host("mpich")
    source, program = folder / "exchange.c", folder / "exchange"
    source.write_text(EXCHANGE)
    run(host.mpicc, source, "-o", program, **host.env)
    said = run(*host.mpiexec, "-n", "2", tree / "bin" / "zerohop", "run", program, **host.env, ZEROHOP_LOG="info")
    if "got 0" not in said or "got 1" not in said or "inline to" not in said:
        raise Wrong(said)


def pkg_config_finds_the_engine(folder: Path, tree: Path) -> None:
    source, program = folder / "engine.c", folder / "engine"
    source.write_text(ENGINE)
    flags = run("pkg-config", "--cflags", "--libs", "zerohop", PKG_CONFIG_PATH=str(tree / "lib" / "pkgconfig"))
    run("sh", "-c", f"cc '{source}' -o '{program}' {flags.strip()}")
    said = run(program, LD_LIBRARY_PATH=str(tree / "lib")).strip()
    version = run("pkg-config", "--modversion", "zerohop", PKG_CONFIG_PATH=str(tree / "lib" / "pkgconfig")).strip()
    if said != version:
        raise Wrong(f"the library says {said}, its file says {version}")


def cmake_finds_the_engine(folder: Path, tree: Path) -> None:
    project = folder / "project"
    project.mkdir()
    (project / "user.c").write_text(ENGINE)
    version = run("pkg-config", "--modversion", "zerohop", PKG_CONFIG_PATH=str(tree / "lib" / "pkgconfig")).strip()
    (project / "CMakeLists.txt").write_text(PROJECT.format(version=version))
    run("cmake", "-S", project, "-B", project / "build", f"-DCMAKE_PREFIX_PATH={tree}")
    run("cmake", "--build", project / "build")
    if run(project / "build" / "user").strip() != version:
        raise Wrong("another version")


def main() -> int:
    if not (BUILT / "cmake_install.cmake").exists():
        raise SystemExit("not built (make build)")
    passed = failed = skipped = 0
    with tempfile.TemporaryDirectory(prefix="zh-install-") as name:
        folder = Path(name)
        tree = install(folder)
        for case in (a_job_is_served, pkg_config_finds_the_engine, cmake_finds_the_engine):
            if case is not a_job_is_served and not shutil.which("pkg-config"):
                print(f"skipped: {case.__name__}: no pkg-config here")
                skipped += 1
                continue
            try:
                case(folder, tree)
            except Wrong as wrong:
                failed += 1
                print(f"failed: {case.__name__}: {wrong}")
                continue
            passed += 1
            print(f"ok {case.__name__}")
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
