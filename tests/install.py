#!/usr/bin/env python3
"""An installed copy, moved to another folder, does what the built one does.

    tests/install.py [--pip | --wheel]

`make install` into an empty root, which is moved to a folder with a blank in its name. There a job under MPICH is
served, also from a folder with a colon, and in a root that holds nothing but libc and the host; `zerohop bench p2p`
runs with the launcher of each host in PATH; and a C program finds the engine's header and library by pkg-config and by
CMake's package. --pip: the same of what pip has made of the checkout and installed into an environment; --wheel: of the
wheel of dev/package. Closing line: `N passed, N failed, N skipped`.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "dev"))

import check_links  # noqa: E402

import hosts as mpi_hosts  # noqa: E402

TOOLS = ROOT / "build" / "env" / "tools" / "bin" / "python"

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


class Skipped(Exception):
    """What is missing here."""


def run(*command: str | Path, cwd: Path = ROOT, timeout_s: float = 300, **env: str) -> str:
    words = [str(word) for word in command]
    done = subprocess.run(words, env={**os.environ, **env}, cwd=cwd, capture_output=True, text=True, timeout=timeout_s)
    if done.returncode != 0:
        raise Wrong(f"{' '.join(words)}: exit code {done.returncode}: {done.stdout[-600:]}{done.stderr[-600:]}")
    return done.stdout + done.stderr


def made(folder: Path) -> Path:
    """The tree of `make install`, moved."""
    run("make", "install", "PREFIX=/opt/zerohop", f"DESTDIR={folder / 'root'}", timeout_s=900)
    moved = folder / "else where"
    shutil.move(folder / "root" / "opt" / "zerohop", moved)
    return moved


def made_by_pip(folder: Path) -> Path:
    # The backend of dev/setup, so that nothing is fetched.
    command = (TOOLS, "-m", "pip", "wheel", "--no-deps", "--disable-pip-version-check", "-q", "--no-build-isolation")
    run(*command, "-w", folder, ROOT, timeout_s=1700)
    (wheel,) = folder.glob("*.whl")
    return wheel


def packed() -> Path:
    run(ROOT / "dev" / "package", "wheel")
    (wheel,) = (ROOT / "build" / "packages").glob("zerohop-*-manylinux_2_28_*.whl")
    return wheel


def files_of(folder: Path) -> set[Path]:
    return {path for path in folder.rglob("*") if not path.is_dir()}


def in_environment(folder: Path, wheel: Path) -> Path:
    """An environment into which pip has installed the wheel, moved."""
    environment, moved = folder / "environment", folder / "else where"
    run(sys.executable, "-m", "venv", "--without-pip", environment)
    pip = (TOOLS, "-m", "pip", "--disable-pip-version-check", "-q", "--python", environment / "bin" / "python")
    install = (*pip, "install", "--no-deps", "--no-index", wheel)
    (packages,) = environment.glob("lib/python*/site-packages")
    (packages / "other").touch()  # else pip takes the emptied folder with it
    before = files_of(environment)
    run(*install)
    run(environment / "bin" / "zerohop", "reproduce", "--list")  # whose Python is not to leave compiled files
    run(*pip, "uninstall", "-y", "zerohop")
    if left := files_of(environment) - before:
        raise Wrong(f"uninstalled, it leaves {sorted(left)[:3]}")
    run(*install)
    said = run(
        environment / "bin" / "python", "-c", "import zerohop, importlib.metadata as m; print(m.version('zerohop'))"
    )
    if said.strip() != version_of(environment):
        raise Wrong(f"the package says {said}, the command {version_of(environment)}")
    shutil.move(environment, moved)
    return moved


def version_of(tree: Path) -> str:
    """The first line of `zerohop --version` has it."""
    return run(tree / "bin" / "zerohop", "--version").splitlines()[0].split()[-1]


def program_of(folder: Path, host: mpi_hosts.Host) -> Path:
    source, program = folder / "exchange.c", folder / "an exchange"
    source.write_text(EXCHANGE)
    run(host.mpicc, source, "-o", program, **host.env)
    return program


def is_served(said: str) -> None:
    if "got 0" not in said or "got 1" not in said or "inline to" not in said:
        raise Wrong(said)


def a_job_is_served(folder: Path, tree: Path) -> None:
    """From another folder, with the command found along PATH."""
    host = mpi_hosts.host("mpich")
    program_of(folder, host)
    path = {"PATH": f"{tree / 'bin'}:{os.environ['PATH']}", "ZEROHOP_LOG": "info"}
    is_served(run(*host.mpiexec, "-n", "2", "zerohop", "run", "./an exchange", cwd=folder, **host.env, **path))


def a_job_is_served_from_a_folder_with_a_colon(folder: Path, tree: Path) -> None:
    host = mpi_hosts.host("mpich")
    program = program_of(folder, host)
    copy = folder / "a:b"
    shutil.copytree(tree, copy, symlinks=True)
    is_served(run(*host.mpiexec, "-n", "2", copy / "bin" / "zerohop", "run", program, **host.env, ZEROHOP_LOG="info"))


def a_benchmark_runs_with_the_launcher_in_path(folder: Path, tree: Path) -> None:
    """Of each host, and with its library, whatever the benchmark programs were compiled with."""
    if not (tree / "libexec" / "zerohop").is_dir():
        raise Skipped("installed without the benchmark programs")
    for host in mpi_hosts.hosts():
        if host.abi == "abi":
            continue
        path = {"PATH": f"{Path(host.mpiexec[0]).parent}:/usr/bin:/bin"}
        options = ("--only", "latency", "--buffers", "malloc", "--sizes", "8", "--raw", "off", "--rounds", "1")
        said = run(tree / "bin" / "zerohop", "bench", "p2p", *options, cwd=folder, **path)
        if f"host {host.name}: {host.mpiexec[0]}" not in said or f"{host.libdir}/{host.soname}" not in said:
            raise Wrong(said)


def a_job_is_served_where_only_libc_is(folder: Path, tree: Path) -> None:
    """In a root that holds the installed tree, the host, a shell and the libraries of libc."""
    host = mpi_hosts.host("mpich")
    if os.geteuid() != 0 or subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode != 0:
        raise Skipped("only root may make roots")
    program, root = program_of(folder, host), folder / "clean"
    shutil.copytree(tree, root / "opt" / "zerohop", symlinks=True)
    prefix = Path(host.libdir).parent
    for place in ("proc", "dev", "tmp", "bin", prefix.relative_to("/")):
        (root / place).mkdir(parents=True, exist_ok=True)
    shutil.copy(program, root / "exchange")
    shutil.copy("/bin/sh", root / "bin" / "sh")
    executables = [Path("/bin/sh"), program, *prefix.glob("bin/*hydra*"), Path(host.libdir) / host.soname]
    for library in sorted({found for e in executables for found in re.findall(r"(/\S+) \(0x", run("ldd", e))}):
        if not library.startswith(str(prefix)):
            copy = root / library.lstrip("/")
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(library, copy)
    for name in ("libdl.so.2", "libpthread.so.0", "libm.so.6"):
        libc = Path(re.search(r"libc\.so\.6 => (\S+)", run("ldd", "/bin/sh"))[1])
        copy = root / str(libc.with_name(name)).lstrip("/")
        if not copy.exists():
            shutil.copy(libc.with_name(name), copy)
    job = shlex.join([*host.mpiexec, "-n", "2", "/opt/zerohop/bin/zerohop", "run", "/exchange"])
    script = (
        'mount --bind "$1" "$0$1" && mount -t proc proc "$0/proc" && mount --rbind /dev "$0/dev"'
        f' && exec chroot "$0" {job}'
    )
    unshare = ("unshare", "-m", "--propagation", "private", "sh", "-c", script, root, prefix)
    is_served(run(*unshare, **host.env, ZEROHOP_LOG="info"))


def pkg_config_finds_the_engine(folder: Path, tree: Path) -> None:
    if not shutil.which("pkg-config"):
        raise Skipped("no pkg-config")
    source, program = folder / "engine.c", folder / "engine"
    source.write_text(ENGINE)
    flags = run("pkg-config", "--cflags", "--libs", "zerohop", PKG_CONFIG_PATH=str(tree / "lib" / "pkgconfig"))
    run("cc", source, "-o", program, *shlex.split(flags))
    said = run(program, LD_LIBRARY_PATH="").strip()
    version = run("pkg-config", "--modversion", "zerohop", PKG_CONFIG_PATH=str(tree / "lib" / "pkgconfig")).strip()
    if said != version:
        raise Wrong(f"the library says {said}, its file says {version}")


def cmake_finds_the_engine(folder: Path, tree: Path) -> None:
    project = folder / "project"
    project.mkdir()
    (project / "user.c").write_text(ENGINE)
    version = version_of(tree)
    (project / "CMakeLists.txt").write_text(PROJECT.format(version=version))
    run("cmake", "-S", project, "-B", project / "build", f"-DCMAKE_PREFIX_PATH={tree}")
    run("cmake", "--build", project / "build")
    if run(project / "build" / "user").strip() != version:
        raise Wrong("another version")


def links_of_the_pages_lead_somewhere(folder: Path, tree: Path) -> None:
    pages = sorted((tree / "share" / "doc" / "zerohop").rglob("*.md"))
    dead = [
        f"{page.name}: {link}"
        for page in pages
        for _, line in check_links.prose(page.read_text())
        for pattern in (check_links.LINK, check_links.SOURCE)
        for link in pattern.findall(line)
        if not check_links.SCHEME.match(link) and not (page.parent / link.partition("#")[0]).exists()
    ]
    if dead or len(pages) < 20:
        raise Wrong(f"{len(pages)} pages; links that lead nowhere: {dead}")


def programs_name_no_folder_of_the_build(folder: Path, tree: Path) -> None:
    named = [path.name for path in (tree / "libexec").rglob("bench_*") if bytes(ROOT) in path.read_bytes()]
    if named:
        raise Wrong(f"{ROOT} is in {named}")


CASES = (
    links_of_the_pages_lead_somewhere,
    programs_name_no_folder_of_the_build,
    a_job_is_served,
    a_job_is_served_from_a_folder_with_a_colon,
    a_job_is_served_where_only_libc_is,
    a_benchmark_runs_with_the_launcher_in_path,
    pkg_config_finds_the_engine,
    cmake_finds_the_engine,
)


def main() -> int:
    parser = argparse.ArgumentParser(description="What an installed copy does.")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--pip", action="store_true", help="install by pip instead of make")
    how.add_argument("--wheel", action="store_true", help="install the wheel of dev/package")
    arguments = parser.parse_args()
    passed = failed = skipped = 0
    with tempfile.TemporaryDirectory(prefix="zh-install-") as name:
        folder = Path(name)
        if arguments.pip or arguments.wheel:
            tree = in_environment(folder, made_by_pip(folder) if arguments.pip else packed())
        else:
            tree = made(folder)
        for case in CASES:
            try:
                case(folder, tree)
            except Skipped as reason:
                skipped += 1
                print(f"skipped: {case.__name__}: {reason}")
            except Wrong as wrong:
                failed += 1
                print(f"failed: {case.__name__}: {wrong}")
            else:
                passed += 1
                print(f"ok {case.__name__}")
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
