#!/usr/bin/env python3
"""The packages of the system install into a clean root, serve a job there, and go without a trace.

    tests/packages.py [--root FOLDER]

.deb by dpkg, .rpm by rpm, each into a root of Debian 12 with Debian's Open MPI, made by debootstrap, or that of --root.
What is in the wheel is equal byte by byte where it is built in another folder, but for benchmark programs. Completion
and manual pages are read by the shells and by mandoc, the module files by Lmod, the recipes of EasyBuild and Spack by
these, where they are here.
Closing line: `N passed, N failed, N skipped`.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import install
from install import ROOT, Skipped, Wrong, run

import hosts as mpi_hosts

PACKAGES = ROOT / "build" / "packages"
MIRROR = "http://deb.debian.org/debian"


def only(pattern: str) -> Path:
    found = list(PACKAGES.glob(pattern))
    if len(found) != 1:
        raise Wrong(f"{pattern}: {found}")
    return found[0]


def contents(root: Path) -> dict[Path, str]:
    """Checksums of its files, without those that keep account of packages."""
    account = ("proc", "sys", "dev", "tmp", "var/lib/dpkg", "var/log", "var/lib/rpm", "var/cache", "usr/lib/sysimage")
    out = {}
    for folder, folders, files in os.walk(root):
        place = Path(folder).relative_to(root)
        folders[:] = [name for name in folders if str(place / name) not in account]
        for name in files:
            path = Path(folder) / name
            if path.is_symlink():
                out[place / name] = os.readlink(path)
            elif path.is_file():
                out[place / name] = hashlib.sha256(path.read_bytes()).hexdigest()
    return out


def within(root: Path, script: str) -> str:
    mounts = 'mount -t proc proc "$0/proc" && mount --rbind /dev "$0/dev" && mount -t tmpfs tmp "$0/tmp"'
    command = (
        "unshare",
        "-m",
        "--propagation",
        "private",
        "sh",
        "-c",
        f'{mounts} && exec chroot "$0" sh -c "$1"',
        root,
        script,
    )
    return run(*command, PATH="/usr/sbin:/usr/bin:/sbin:/bin")


def bare_root(folder: Path, made: Path | None) -> Path:
    if os.geteuid() != 0 or not shutil.which("debootstrap"):
        raise Skipped("only root may make roots, by debootstrap")
    root = folder / "root"
    if made:
        run("cp", "-a", made, root)
        return root
    options = ("--variant=minbase", "--include=openmpi-bin,python3")
    if subprocess.run(["debootstrap", *options, "bookworm", root, MIRROR], capture_output=True).returncode != 0:
        raise Skipped("debootstrap could not make a root of Debian 12")
    return root


def served_and_gone(root: Path, put: str, take: str) -> None:
    """`put` and `take` are run in the root, by this system's shell."""
    before = contents(root)
    run("sh", "-ec", put, root)
    job = "mpirun --allow-run-as-root --oversubscribe -n 2 zerohop run /exchange"
    install.is_served(within(root, f"ZEROHOP_CACHE=/tmp ZEROHOP_LOG=info {job} 2>&1"))
    for command in ("zerohop --version", "zerohop report --help"):
        within(root, command)
    run("sh", "-ec", take, root)
    after = contents(root)
    if changed := sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path)):
        raise Wrong(f"it leaves {changed[:5]}")


def packages_of_the_system(folder: Path, made: Path | None) -> None:
    root = bare_root(folder, made)
    host = mpi_hosts.host("openmpi")
    shutil.copy(install.program_of(folder, host), root / "exchange")
    debs = [only("zerohop_*.deb"), only("zerohop-dev_*.deb")]
    for deb in debs:
        shutil.copy(deb, root)
    names = " ".join(f"/{deb.name}" for deb in debs)
    served_and_gone(root, f'chroot "$0" dpkg -i {names}', 'chroot "$0" dpkg -P zerohop-dev zerohop')
    rpms = [only("zerohop-[0-9]*.rpm"), only("zerohop-devel-*.rpm")]
    names = " ".join(map(str, rpms))
    # Of rpm's own dependencies nothing is known in a root of Debian.
    rpm = 'rpm --root "$0" --dbpath /var/lib/rpm --nodeps'
    served_and_gone(root, f"{rpm} -i {names}", f"{rpm} -e zerohop-devel zerohop")


def builds_are_equal(folder: Path, _: Path | None) -> None:
    if run("git", "status", "--porcelain", "--untracked-files=no"):
        raise Skipped("the checkout has changes that are in no commit")
    clone = folder / "clone"
    run("git", "clone", "-q", ROOT, clone)
    (clone / "build").mkdir()
    (clone / "build" / "env").symlink_to((ROOT / "build" / "env").resolve())
    run("dev/build", "release", "product", cwd=clone, timeout_s=1800)
    run("dev/package", "wheel", cwd=clone)
    here, there = only("*.whl"), clone / "build" / "packages" / only("*.whl").name
    pair = [folder / "first", folder / "second"]
    for wheel, unpacked in zip((here, there), pair, strict=True):
        shutil.unpack_archive(wheel, unpacked, "zip")
    first, second = map(contents, pair)
    # The compilers' wrappers of the hosts put the folder of their libraries into the benchmark programs.
    differ = [path for path in first if first[path] != second.get(path) and path.name != "RECORD"]
    if wrong := [path for path in differ if not path.name.startswith("bench_")]:
        raise Wrong(f"these differ: {sorted(wrong)[:5]}")


def shells_and_readers_understand(folder: Path, _: Path | None) -> None:
    pages = ROOT / "build" / "cmake" / "release" / "pages" / "share"
    scripts = {"bash": "bash-completion/completions/zerohop", "zsh": "zsh/site-functions/_zerohop"}
    scripts["fish"] = "fish/vendor_completions.d/zerohop.fish"
    for shell, script in scripts.items():
        if shutil.which(shell):
            run(shell, "-n", pages / script)
    if shutil.which("mandoc"):
        for page in (pages / "man" / "man1").glob("*.1"):
            run("mandoc", "-T", "lint", "-W", "error", page)
    missing = [tool for tool in (*scripts, "mandoc") if not shutil.which(tool)]
    if missing:
        raise Skipped(f"all others did; not here: {missing}")


def lmod_loads_the_modules(folder: Path, _: Path | None) -> None:
    lmod = Path("/usr/share/lmod/lmod/libexec/lmod")
    if not lmod.exists():
        raise Skipped("no Lmod")
    for language, name in (("lua", "0.lua"), ("tcl", "0")):
        modules = folder / language / "zerohop"
        modules.mkdir(parents=True)
        shutil.copy(PACKAGES / "modules" / f"zerohop.{language}", modules / name)
        said = run(lmod, "bash", "load", "zerohop", MODULEPATH=str(modules.parent))
        if "PATH=/opt/zerohop/" not in said or "MANPATH=/opt/zerohop/" not in said:
            raise Wrong(f"{language}: {said[-400:]}")


def recipes_are_read(folder: Path, _: Path | None) -> None:
    (easyconfig,) = (PACKAGES / "easybuild").glob("*.eb")
    package = PACKAGES / "spack" / "package.py"
    science = ROOT / "build" / "env" / "science" / "bin"
    for recipe in (easyconfig, package):
        compile(recipe.read_text(), recipe, "exec")
    missing = []
    if (science / "eb").exists() and shutil.which("tclsh"):
        # Its dependencies too, among the recipes that EasyBuild brings.
        options = ("--allow-use-as-root-and-accept-consequences", "--modules-tool=Lmod", "--dry-run", "--robot")
        lmod = "/usr/share/lmod/lmod/libexec"
        path = {"PATH": f"{os.environ['PATH']}:{lmod}", "LMOD_CMD": f"{lmod}/lmod", "HOME": str(folder)}
        run(science / "eb", *options, easyconfig, EB_PYTHON=str(science / "python"), **path)
    else:
        missing.append("EasyBuild")
    if shutil.which("spack"):
        run("spack", "python", package)
    else:
        missing.append("Spack")
    if missing:
        raise Skipped(f"as Python they are right; not here: {missing}")


CASES = (
    packages_of_the_system, builds_are_equal, shells_and_readers_understand, lmod_loads_the_modules, recipes_are_read,
)  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description="What the packages do.")
    parser.add_argument("--root", type=Path, help="a root of Debian 12 with openmpi-bin, of which copies are used")
    arguments = parser.parse_args()
    run(ROOT / "dev" / "package", timeout_s=600)
    counts = {"ok": 0, "failed": 0, "skipped": 0}
    for case in CASES:
        with tempfile.TemporaryDirectory(prefix="zh-packages-") as name:
            try:
                case(Path(name), arguments.root)
                said, why = "ok", ""
            except Skipped as reason:
                said, why = "skipped", str(reason)
            except Wrong as wrong:
                said, why = "failed", str(wrong)
        counts[said] += 1
        print(f"{said}{': ' if why else ' '}{case.__name__}{': ' if why else ''}{why}", flush=True)
    print(f"{counts['ok']} passed, {counts['failed']} failed, {counts['skipped']} skipped")
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
