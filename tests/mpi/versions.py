#!/usr/bin/env python3
"""What runs under each version of an MPI library: the rows of the table "MPI libraries" of docs/user/guide.md.

    tests/mpi/versions.py [--host NAME]... [--part PART]... [--ranks N]... [--root FOLDER] [--zerohop FOLDER] [--list]

The versions are those of dev/setup, whatever else lies in build/env under a name such as impi-2021.13 (a virtual
environment with that wheel), and the system's (debian-mpich, debian-openmpi). --root: the system's are those of this
root, which must have them, python3 and gfortran, and where the checkout is mounted for the time of a job; --zerohop is
the installed copy to take, as the root sees it.

Parts: demo (NetPIPE or the Intel MPI Benchmarks, whose messages zerohop must count as its own), p2p, collectives,
fortran (both bindings), mpi4py (its own tests). What fails is run again on the host alone, and counts as failed unless
it fails there too. Closing line: `N passed, N failed, N skipped`.
"""

from __future__ import annotations

import argparse
import dataclasses
import fnmatch
import json
import os
import re
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path[:0] = [str(HERE), str(ROOT / "dev")]

from machines.placement import Placement  # noqa: E402
from matrix import programs  # noqa: E402
from matrix.launch import Zerohop  # noqa: E402
from matrix.results import Results, Test  # noqa: E402
from older_hosts import LEFT_OUT, YOUNG_MPICH  # noqa: E402
from run_matrix import served  # noqa: E402

import hosts as mpi_hosts  # noqa: E402

PARTS = ("demo", "p2p", "collectives", "fortran", "mpi4py")
FOLDER = programs.WORK / "versions"
# On a host older than MPI 4 mpi4py asks which functions there are. It finds zerohop's, which give an error where the
# host would have to serve the call: sessions, persistent collectives on one rank, MPI_Isendrecv there.
OLD_MPI4PY = ("test_session", "test_cco_pr_*", "*TestP2PBuf*ISendrecv*", "*TestErrhandlerSession*")
# Reductions that the host gets wrong: zerohop's results are right and differ. Which tests meet them is drawn by chance.
WRONG_REDUCTIONS = {"debian-openmpi": r"MPI_UNSIGNED_LONG by (MAX|MIN)\b.*is not the host's"}
SYSTEM_LIBRARIES = f"/usr/lib/{os.uname().machine}-linux-gnu"
# In a namespace of mounts of its own, so that nothing has to be taken down.
ENTER = """
root=$1 tree=$2
shift 2
mkdir -p "$root$tree" "$root/sys"
mount --bind "$tree" "$root$tree"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount --rbind /sys "$root/sys"
exec chroot "$root" "$@"
"""


@dataclasses.dataclass
class Version:
    host: mpi_hosts.Host
    compilers: mpi_hosts.Host  # of today, with the same binary interface
    zerohop: Zerohop
    demo: list[str]
    enter: list[str] = dataclasses.field(default_factory=list)  # begin of a command line there
    mpif90: str = ""  # the system's, or none: the programs are those of today's Intel MPI
    left_out: tuple[str, ...] = ()

    @property
    def old(self) -> bool:
        """Whether it is older than MPI 4."""
        return "sessions.*" in self.left_out


@dataclasses.dataclass
class Count:
    passed: int = 0
    failed: int = 0
    known: int = 0  # the host fails them itself
    skipped: int = 0

    def __str__(self) -> str:
        said = f"{self.passed} of {self.passed + self.failed + self.known}"
        return said + (f" ({self.known} the host fails itself)" if self.known else "")


# ---- the versions


def left_out_of(name: str) -> tuple[str, ...]:
    """What a library older than MPI 4 lacks, or gets wrong in such a way that the job ends."""
    if name in LEFT_OUT:
        return tuple(LEFT_OUT[name])
    if name == "debian-openmpi":
        return tuple(LEFT_OUT["openmpi-4.1"])
    if match := re.fullmatch(r"impi-2021\.(\d+)", name):
        of_old = LEFT_OUT["impi-2021.10"]
        # What is MPI 4 came with 2021.15.
        return tuple(of_old if int(match[1]) < 15 else [test for test in of_old if test not in YOUNG_MPICH])
    return ()


def pingpong(abi: str) -> list[str]:
    netpipe = mpi_hosts.ENV_DIR / "netpipe" / "usr" / "bin" / "NPopenmpi"
    imb = [str(programs.IMB), "PingPong", "-msglog", "3:22", "-iter", "200"]
    return [str(netpipe), *netpipe_options()] if abi == "ompi" else imb


def netpipe_options() -> list[str]:
    return ["-p", "0", "-l", "8", "-u", str(1 << 22), "-n", "50", "-o", "/dev/null"]


def wheels(zerohop: Zerohop) -> list[Version]:
    today = {h.name: h for h in mpi_hosts.hosts()}
    older = {h.name: h for h in mpi_hosts.older_hosts()}
    found = [Version(h, h, zerohop, pingpong(h.abi)) for h in today.values() if h.abi != "abi"]
    for folder in sorted(mpi_hosts.ENV_DIR.glob("*-*")):
        family = folder.name.split("-")[0]
        if family not in today or not (folder / "bin" / "mpiexec").exists():
            continue
        like = older.get(folder.name) or next(h for h in older.values() if h.name.split("-")[0] == family)
        env = {name: value.replace(like.name, folder.name) for name, value in like.env.items()}
        host = dataclasses.replace(
            today[family],
            name=folder.name,
            env=env,
            mpiexec=[str(folder / "bin" / "mpiexec")],
            libdir=str(folder / "lib"),
        )
        compilers = today["mpich" if family == "impi" else family]
        found.append(Version(host, compilers, zerohop, pingpong(host.abi), left_out=left_out_of(folder.name)))
    return found


def system(root: Path | None, zerohop: Zerohop) -> list[Version]:
    enter = [] if root is None else ["unshare", "-m", "--propagation", "private", "sh", "-ec", ENTER, "sh", root, ROOT]
    enter = [str(word) for word in enter]
    today = {h.name: h for h in mpi_hosts.hosts()}
    # Debian's MPICH has another name, which the test programs do not ask for.
    renamed = FOLDER / "libmpi"
    site = {"PYTHONPATH": str(next(Path(today["mpich"].libdir).glob("python3*/site-packages"), ""))}
    found = []
    own = {h.name.removeprefix("debian-"): h for h in mpi_hosts.distribution_hosts()}
    for family, libraries, netpipe in (
        ("mpich", str(renamed), "NPmpich2"),
        ("openmpi", SYSTEM_LIBRARIES, "NPopenmpi"),
    ):
        if family not in today or not Path(f"{root or ''}{own[family].mpiexec[0]}").exists():
            continue
        host = dataclasses.replace(
            today[family],
            name=own[family].name,
            mpiexec=[*enter, *own[family].mpiexec],
            env={**own[family].env, "LD_LIBRARY_PATH": libraries, **site, "MPI4PY_MPIABI": family},
            libdir=libraries,
            python=own[family].python,
        )
        demo = [f"/usr/bin/{netpipe}", *netpipe_options()]
        left_out = left_out_of(host.name)
        found.append(Version(host, today[family], zerohop, demo, enter, f"/usr/bin/mpif90.{family}", left_out))
    if found:
        renamed.mkdir(parents=True, exist_ok=True)
        link = renamed / "libmpi.so.12"
        link.unlink(missing_ok=True)
        link.symlink_to(f"{SYSTEM_LIBRARIES}/libmpich.so.12")
    return found


# ---- the parts; each gives the result of every test


def demo(version: Version, setting: programs.Setting) -> Results:
    outcome = setting.launch(version.demo, 120)
    whole = re.search(r"^ *(\d+: )? *4194304 (bytes)?", outcome.output, re.MULTILINE)
    return {"demo": Test("ok") if whole and outcome.code == 0 else Test("fail", outcome.tail(6))}


def point_to_point(version: Version, setting: programs.Setting) -> Results:
    return conformance(version, setting, programs.semantics_binary(version.compilers))


def collectives(version: Version, setting: programs.Setting) -> Results:
    return conformance(version, setting, programs.collectives_binary(version.compilers))


def conformance(version: Version, setting: programs.Setting, binary: str) -> Results:
    if setting.zerohop is None:
        # Without zerohop's functions of MPI 4 the program would not start on an older host.
        setting = dataclasses.replace(setting, zerohop=version.zerohop, env={"ZEROHOP_ENABLE": "0"})
    return programs.run_cases(setting, binary, "*", [], lister=version.compilers)


def fortran(version: Version, setting: programs.Setting) -> Results:
    results: Results = {}
    for name in ("mpif", "f08"):
        if version.mpif90:
            command = [*version.enter, version.mpif90, "-O1", "-g", "-fallow-argument-mismatch"]
            binary = programs.fortran_binary(version.host, name, command)
        else:
            interface = version.host if version.host.abi == "ompi" else mpi_hosts.host("impi")
            if why := programs.fortran_missing(interface, name):
                results[f"fortran.{name}"] = Test("skip", why)
                continue
            if not (Path(version.host.libdir) / "libmpifort.so.12").exists():
                results[f"fortran.{name}"] = Test("skip", "the host's wheel has no Fortran binding")
                continue
            binary = programs.fortran_binary(interface, name)
        read = programs.run_fortran(setting, binary, [])
        results.update({f"{name}.{test}": result for test, result in read.items()})
    return results


def mpi4py(version: Version, setting: programs.Setting) -> Results:
    results: Results = {}
    # The wheel of mpi4py would take the library of its own environment.
    env = {**setting.env, "MPI4PY_LIBMPI": str(Path(version.host.libdir) / version.host.soname)}
    setting = dataclasses.replace(setting, env=env, without=OLD_MPI4PY if version.old else ())
    for group in ("p2p", "coll", "comm"):
        read = programs.run_mpi4py(group, setting, [])
        results.update({test: Test("skip", "left out") if left_out(test, setting) else read[test] for test in read})
    return results


def left_out(test: str, setting: programs.Setting) -> bool:
    return any(fnmatch.fnmatch(test, glob) for glob in setting.without)


RUN = dict(zip(PARTS, (demo, point_to_point, collectives, fortran, mpi4py), strict=True))


def host_is_wrong(version: Version, result: Test) -> bool:
    wrong = WRONG_REDUCTIONS.get(version.host.name)
    return wrong is not None and re.search(wrong, result.why) is not None


def run_part(version: Version, part: str, ranks: int, said: list[str]) -> Count:
    """One cell of the table; says what failed. `said` receives the version that zerohop saw."""
    folder = FOLDER / "stats"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    without = version.left_out if part in ("p2p", "collectives") else ()
    # A file of each launch: of mpi4py's groups the last one hardly sends.
    env = {"ZEROHOP_STATS": str(folder / "stats-%j.json")}
    setting = programs.Setting(version.host, Placement(ranks), version.zerohop, env, effort="low", without=without)
    start = time.monotonic()
    results = RUN[part](version, setting)
    if ranks > 1 and any(test.status != "skip" for test in results.values()):
        results["(zerohop took part)"] = served(folder)
        for path in folder.glob("stats*"):
            said.append(re.sub(r"\s+", " ", json.loads(path.read_text())["host_version"]))
    count, name = Count(), f"{version.host.name} {part} {ranks} ranks"
    seconds = time.monotonic() - start
    bad = {test: result for test, result in results.items() if result.status == "fail"}
    alone: Results = {}
    if bad:
        # Without zerohop's libraries: what the host makes of it.
        alone = RUN[part](version, dataclasses.replace(setting, zerohop=None, env={}))
    for test, result in results.items():
        if result.status == "skip":
            count.skipped += 1
        elif result.status == "ok":
            count.passed += not test.startswith("(")
        elif (test in alone and alone[test].status == "fail") or host_is_wrong(version, result):
            count.known += 1
            print(f"  the host's own: {name} {test}: {result.why[:200]}", flush=True)
        else:
            count.failed += 1
            print(f"failed: {name} {test}: {result.why[:600]}", flush=True)
    print(f"{name}: {count}, {count.skipped} skipped ({seconds:.0f} s)", flush=True)
    return count


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--host", action="append", default=[], metavar="GLOB", help="only these versions (repeatable)")
    parser.add_argument("--part", action="append", default=[], choices=PARTS, help="only this part (repeatable)")
    parser.add_argument("--ranks", action="append", type=int, default=[], metavar="N", help="default: 2 and 3")
    parser.add_argument("--root", type=Path, help="root that has the system's MPI libraries")
    parser.add_argument("--zerohop", type=Path, default=ROOT / "build", help="folder with bin/ and lib/")
    parser.add_argument("--list", action="store_true", help="print the versions that are here and stop")
    arguments = parser.parse_args()
    # A job ends with this process also when it is told to go.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    # What a job writes has to lie where a root sees it.
    FOLDER.mkdir(parents=True, exist_ok=True)
    tempfile.tempdir = str(FOLDER)
    os.environ["ZEROHOP_CACHE"] = str(FOLDER / "calibration")
    of_wheels = Zerohop(ROOT / "build" if arguments.root else arguments.zerohop)
    all_versions = [*wheels(of_wheels), *system(arguments.root, Zerohop(arguments.zerohop))]
    wanted = [v for v in all_versions if any(fnmatch.fnmatch(v.host.name, glob) for glob in arguments.host or ["*"])]
    if arguments.list:
        print("\n".join(v.host.name for v in wanted))
        return 0
    passed = failed = skipped = 0
    rows = []
    for version in wanted:
        cells, said = [], []
        for part in arguments.part or PARTS:
            counts = [run_part(version, part, n, said) for n in (arguments.ranks or (2, 3)) if part != "demo" or n == 2]
            total = Count(*(sum(getattr(c, f.name) for c in counts) for f in dataclasses.fields(Count)))
            passed, failed, skipped = (
                passed + total.passed,
                failed + total.failed,
                skipped + total.skipped + total.known,
            )
            cells.append(str(total) if total.passed + total.failed + total.known else "not there")
        seen = " / ".join(sorted(set(said))) or "?"
        rows.append(f"| {version.host.name}: {seen} | " + " | ".join(cells) + " |")
    print("\n".join(["| version | " + " | ".join(arguments.part or PARTS) + " |", *rows]))
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
