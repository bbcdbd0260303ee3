"""The programs of `zerohop bench apps`: what each needs, how it is started, and what it says of its time and result.

A program is started in an empty folder; `read` is given that folder and what the job said. Own programs are those of
bench/apps, bench/mpi and examples; others' are found where dev/setup full, a wheel or the distribution put them.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

CLASSES = ("S", "W", "A", "B")
SYSTEM_HOST = "debian-openmpi"


class Unreadable(Exception):
    """What a program left says no time."""


@dataclasses.dataclass
class Outcome:
    """Of one launch: seconds by part ("" where a program has but one), and whether the program found itself right."""

    seconds: dict[str, float]
    verified: bool
    value: str | None = None  # must be the same with and without zerohop; None: sums may come in another order
    mpi_share: float | None = None


@dataclasses.dataclass
class Place:
    """Where things are: the command, the benchmark programs, the environments of dev/setup, the sources to compile."""

    zerohop: Path
    programs: Path
    env_dir: Path
    outside: Path
    cache: Path
    against: str = ""  # settings of zerohop on the host's side; none: it has no zerohop


@dataclasses.dataclass
class App:
    """`missing`: why the program cannot run under a host, or "". `command`: its words; may write its input to the
    folder. `system`: runs under the distribution's MPI, "only" or "too". `alone`: starts its processes itself, and
    takes the word "zerohop" or `alone` at its end."""

    name: str
    about: str
    missing: Callable[[Place, dict], str]
    command: Callable[[Place, dict, str, int, Path], list[str]]
    read: Callable[[Path, str], Outcome]
    classes: tuple[str, ...] = CLASSES
    libraries: Callable[[Place], list[Path]] = lambda _: []
    system: str = ""
    alone: str = ""


def of_document(document: dict) -> Outcome:
    seconds = document["seconds"]
    value = json.dumps(document.get("value")) if document.get("exact") else None
    parts = seconds if isinstance(seconds, dict) else {"": seconds}
    return Outcome(parts, document["verified"], value, document.get("mpi_share"))


def read_json(folder: Path, said: str) -> Outcome:
    try:
        return of_document(json.loads((folder / "out.json").read_text()))
    except (OSError, ValueError, KeyError) as problem:
        raise Unreadable(f"{problem}: {said[-300:]}") from problem


# ---- own programs, compiled for each binary interface


def bench(place: Place, host: dict, program: str) -> Path:
    return place.programs / f"bench_{program}_{host['abi']}"


def own(name: str, about: str, program: str, words: Callable[[str, Path], list[str]], read=read_json) -> App:
    def missing(place: Place, host: dict) -> str:
        path = bench(place, host, program)
        return "" if path.exists() else f"no {path} (make build)"

    def command(place: Place, host: dict, size: str, _: int, folder: Path) -> list[str]:
        return [str(bench(place, host, program)), *words(size, folder)]

    return App(name, about, missing, command, read)


def nas(name: str, about: str) -> App:
    return own(name, about, "apps", lambda size, folder: [name, "--class", size, "--out", str(folder / "out.json")])


HALO = {"S": ("64", "2000"), "W": ("512", "200"), "A": ("1024", "200"), "B": ("2048", "100")}
ORDER = {"S": "64", "W": "256", "A": "512", "B": "1024"}


def read_halo(_: Path, said: str) -> Outcome:
    found = re.search(r"each, ([\d.]+) us per step, ([\d.]+) us of it exchange, (verified|WRONG)", said)
    if not found:
        raise Unreadable(said[-300:])
    step, exchange = float(found[1]), float(found[2])
    return Outcome({"": step * 1e-6}, found[3] == "verified", "the whole field", exchange / step)


def read_matmul(folder: Path, said: str) -> Outcome:
    try:
        document = json.loads((folder / "out.json").read_text())
        (whole,), (in_mpi,) = (document["cases"][0]["metrics"][name] for name in ("time_us", "comm_us"))
    except (OSError, ValueError, KeyError, IndexError) as problem:
        raise Unreadable(f"{problem}: {said[-300:]}") from problem
    us = sorted(whole)[len(whole) // 2]
    return Outcome({"": us * 1e-6}, document["errors"] == 0, "the whole product", sum(in_mpi) / sum(whole))


def matmul_words(size: str, folder: Path) -> list[str]:
    # A plain duplicate of the world's communicator: whoever serves it.
    return ["--arms", "zerohop", "--sizes", ORDER[size], "--blocks", "9", "--out", str(folder / "out.json")]


# ---- Python, Fortran and C programs of users, over what the host has


@functools.cache
def has_mpi4py(python: str) -> bool:
    return subprocess.run([python, "-c", "import mpi4py, numpy"], capture_output=True).returncode == 0


def no_mpi4py(_: Place, host: dict) -> str:
    python = host.get("python") or "/none"
    return "" if Path(python).exists() and has_mpi4py(python) else "no Python with mpi4py and NumPy for this host"


def heat_command(_: Place, host: dict, size: str, __: int, folder: Path) -> list[str]:
    points, steps = HALO[size]
    return [host["python"], str(Path(__file__).with_name("apps_heat.py")), points, steps, str(folder / "out.json")]


def gfortran_words(host: dict) -> list[str] | str:
    """How gfortran compiles for a host, or why it cannot."""
    gfortran = shutil.which("gfortran")
    include, library = Path(host.get("include") or "/none"), Path(host.get("libdir") or "/none")
    if not gfortran:
        return "not installed: apt-get install gfortran"
    if host["name"] == SYSTEM_HOST:
        wrapper = shutil.which("mpif90.openmpi")
        return [wrapper, "-O2"] if wrapper else "not installed: apt-get install libopenmpi-dev"
    if host["abi"] == "abi" or not (library / "libmpifort.so").exists():
        return "the host has no Fortran binding"
    version = subprocess.run([gfortran, "-dumpversion"], capture_output=True, text=True).stdout.split(".")[0].strip()
    modules = [include, *(include / "mpi" / "gfortran").glob(f"{version}.*")]
    module = [m for name in ("mpi_f08.mod", "mpi.mod") for m in modules if (m / name).exists()]
    if not module:
        return "the host has no MPI module for this gfortran"
    old = [] if (module[0] / "mpi_f08.mod").exists() else ["-DOLD_MODULE", "-fallow-argument-mismatch", "-w"]
    where = ["-Wl,--no-as-needed", "-L", str(library), f"-Wl,-rpath,{library}", "-lmpifort", "-lmpi"]
    return [gfortran, "-O2", *old, "-I", str(module[0]), *where]


def outside_binary(place: Place, source: str, compiler: list[str], libraries: list[str]) -> str:
    """The program, compiled where it is not already; CalledProcessError with the compiler's words."""
    text = (place.outside / source).read_bytes()
    stamp = hashlib.sha256(text + " ".join([*compiler, *libraries]).encode()).hexdigest()[:16]
    binary = place.cache / f"{Path(source).stem}-{stamp}"
    if not binary.exists():
        place.cache.mkdir(parents=True, exist_ok=True)
        made = binary.with_suffix(f".{os.getpid()}")
        command = [*compiler, str(place.outside / source), "-o", str(made), *libraries]
        subprocess.run(command, check=True, capture_output=True, text=True)
        made.rename(binary)
    return str(binary)


def jacobi_missing(_: Place, host: dict) -> str:
    words = gfortran_words(host)
    return words if isinstance(words, str) else ""


def jacobi_command(place: Place, host: dict, size: str, _: int, folder: Path) -> list[str]:
    words = gfortran_words(host)
    assert isinstance(words, list)
    return [outside_binary(place, "jacobi.F90", words, []), *HALO[size], str(folder / "out.json")]


# ---- libraries of the distribution, which run under the distribution's Open MPI

SYSTEM_SIZES = {"boost": ("200", "1000", "5000", "20000"), "petsc": ("64", "128", "256", "512"),
                "hdf5": ("128", "512", "1024", "2048")}  # fmt: skip


def system_app(name: str, about: str, package: str, source: str, module: str, libraries: list[str]) -> App:
    """`module`: of pkg-config, or the library's header where it has none."""
    compiler = shutil.which("mpicxx.openmpi" if source.endswith("cpp") else "mpicc.openmpi")

    @functools.cache
    def flags() -> list[str] | None:
        if not module.endswith(".hpp"):
            if not shutil.which("pkg-config"):
                return None
            found = subprocess.run(["pkg-config", "--cflags", "--libs", module], capture_output=True, text=True)
            return found.stdout.split() if found.returncode == 0 else None
        return libraries if Path("/usr/include", module).exists() else None

    def missing(_: Place, __: dict) -> str:
        return f"not installed: apt-get install {package}" if not compiler or flags() is None else ""

    def command(place: Place, _: dict, size: str, __: int, folder: Path) -> list[str]:
        binary = outside_binary(place, source, [str(compiler), "-O2"], flags() or [])
        return [binary, SYSTEM_SIZES[name][CLASSES.index(size)], str(folder / "out.json")]

    return App(name, about, missing, command, read_json, system="only")


# ---- programs of others


def speaks(binary: Path, host: dict) -> bool:
    """Whether a program that is not ours is built for the host's binary interface."""
    soname = {"ompi": b"libmpi.so.40", "mpich": b"libmpi.so.12", "abi": b"libmpi_abi.so"}[host["abi"]]
    return soname in binary.read_bytes()


def found(name: str, binary: Callable[[Place], Path], how: str) -> Callable[[Place, dict], str]:
    def missing(place: Place, host: dict) -> str:
        path = binary(place)
        if not path.exists():
            return f"{name} is not installed: {how}"
        return "" if speaks(path, host) else f"{path.name} is built for another MPI"

    return missing


def unpacked(place: Place, name: str) -> Path:
    return place.env_dir / "programs" / "usr" / "bin" / name


def unpacked_libraries(place: Place) -> list[Path]:
    libraries = place.env_dir / "programs" / "usr" / "lib" / "x86_64-linux-gnu"
    return [libraries, libraries / "blas"]


LAMMPS_INPUT = """
units lj
atom_style atomic
lattice fcc 0.8442
region box block 0 {box} 0 {box} 0 {box}
create_box 1 box
create_atoms 1 box
mass 1 1.0
velocity all create 1.44 87287 loop geom
pair_style lj/cut 2.5
pair_coeff 1 1 1.0 1.0 2.5
neighbor 0.3 bin
neigh_modify every 5 delay 0 check no
fix 1 all nve
thermo 20
run {steps}
"""
LAMMPS_SIZES = {"S": (8, 100), "W": (14, 100), "A": (22, 100), "B": (40, 100)}
LAMMPS_DRIFT = 0.01  # of the total energy, which the integrator keeps


def lammps_command(place: Place, _: dict, size: str, __: int, folder: Path) -> list[str]:
    box, steps = LAMMPS_SIZES[size]
    (folder / "in.melt").write_text(LAMMPS_INPUT.format(box=box, steps=steps))
    return [str(unpacked(place, "lmp")), "-in", "in.melt", "-log", "none"]


def read_lammps(_: Path, said: str) -> Outcome:
    loop = re.search(r"^Loop time of ([\d.e+-]+) on", said, re.MULTILINE)
    energies = [float(e) for e in re.findall(r"^ *\d+(?: +\S+){3} +(\S+) +\S+ *$", said, re.MULTILINE)]
    if not loop or len(energies) < 2:
        raise Unreadable(said[-300:])
    kept = abs(energies[-1] - energies[0]) <= LAMMPS_DRIFT * abs(energies[0])
    return Outcome({"": float(loop[1])}, kept)


HPCC_SIZES = {"S": 500, "W": 1500, "A": 3000, "B": 6000}
HPCC_TIMES = {"HPL": "HPL_time", "PTRANS": "PTRANS_time", "RandomAccess": "MPIRandomAccess_time"}
HPCC_LATENCIES = {"ping-pong": "MaxPingPongLatency_usec", "ring": "NaturallyOrderedRingLatency_usec",
                  "random ring": "RandomlyOrderedRingLatency_usec"}  # fmt: skip


def hpcc_input(env_dir: Path, ranks: int, size: int) -> str:
    """The packaged input with one problem size and a grid for this many ranks."""
    path = env_dir / "programs" / "usr" / "share" / "doc" / "hpcc" / "examples" / "_hpccinf.txt"
    text, rows = path.read_text(), max(r for r in range(1, int(ranks**0.5) + 1) if ranks % r == 0)
    for pattern, value in (
        (r"^1000 +Ns$", f"{size} Ns"),
        (r"^2 +Ps$", f"{rows} Ps"),
        (r"^2 +Qs$", f"{ranks // rows} Qs"),
    ):
        text, count = re.subn(pattern, value, text, flags=re.MULTILINE)
        if count != 1:
            raise Unreadable(f"HPCC's input has no line {pattern}")
    return text


def hpcc_command(place: Place, _: dict, size: str, ranks: int, folder: Path) -> list[str]:
    (folder / "hpccinf.txt").write_text(hpcc_input(place.env_dir, ranks, HPCC_SIZES[size]))
    return [str(unpacked(place, "hpcc"))]


def read_hpcc(folder: Path, said: str) -> Outcome:
    path = folder / "hpccoutf.txt"
    text = path.read_text(errors="replace") if path.exists() else ""
    values = dict(re.findall(r"^(\w+)=(\S+)$", text, re.MULTILINE))
    if "Success" not in values:
        raise Unreadable((text or said)[-300:])
    seconds = {part: float(values[key]) for part, key in HPCC_TIMES.items() if float(values.get(key, 0)) > 0}
    seconds["FFT"] = sum(float(values.get(f"MPIFFT_time{i}", 0)) for i in range(7))
    seconds |= {part: float(values[key]) * 1e-6 for part, key in HPCC_LATENCIES.items() if key in values}
    failed = re.search(r"\bFAILED\b", re.sub(r"\b0 tests? completed and failed\b", "", text))
    return Outcome({k: v for k, v in seconds.items() if v > 0}, values["Success"] == "1" and not failed)


IMB = ("PingPong", "Sendrecv", "Allreduce", "Allgather", "Alltoall", "Bcast")
SHOWN_BYTES = (8, 1024, 65536, 1 << 20)


def imb_binary(place: Place) -> Path:
    return place.env_dir / "impi" / "bin" / "IMB-MPI1"


def imb_command(place: Place, _: dict, __: str, ranks: int, folder: Path) -> list[str]:
    lengths = folder / "lengths"
    lengths.write_text("".join(f"{n}\n" for n in SHOWN_BYTES))
    pace = ["-npmin", str(ranks), "-iter", "1000", "-time", "1", "-msglen", str(lengths)]
    return [str(imb_binary(place)), *IMB, *pace]


def bytes_text(n: int) -> str:
    return f"{n >> 20}M" if n >= 1 << 20 else f"{n >> 10}K" if n >= 1 << 10 else str(n)


def read_imb(_: Path, said: str) -> Outcome:
    """Of each benchmark the average time of a message or call; IMB verifies nothing, but has to reach its end."""
    seconds, name, column = {}, "", 0
    for line in said.splitlines():
        if found := re.match(r"# Benchmarking (\w+)", line):
            name = found[1]
        elif "#repetitions" in line:
            words = line.split()
            column = next(i for i, w in enumerate(words) if w in ("t[usec]", "t_avg[usec]"))
        elif name and re.match(r"^ +\d+ +\d+ +[\d.]", line):
            words = line.split()
            seconds[f"{name} {bytes_text(int(words[0]))}"] = float(words[column]) * 1e-6
    if not seconds:
        raise Unreadable(said[-300:])
    return Outcome(seconds, "All processes entering MPI_Finalize" in said)


OSU = ("osu_latency", "osu_allreduce", "osu_alltoall", "osu_allgather", "osu_bcast")


def osu_app(name: str) -> App:
    def binary(_: Place) -> Path:
        home = os.environ.get("OSU_HOME", "/usr/libexec/osu-micro-benchmarks")
        return next(Path(home).glob(f"**/{name}"), Path(shutil.which(name) or f"/none/{name}"))

    def command(place: Place, _: dict, __: str, ___: int, ____: Path) -> list[str]:
        return [str(binary(place)), "-m", f"{SHOWN_BYTES[0]}:{SHOWN_BYTES[-1]}"]

    how = "put its programs into PATH, or name their folder by OSU_HOME"
    return App(name, "of the OSU micro-benchmarks", found("OSU", binary, how), command, read_osu, classes=("-",))


def read_osu(_: Path, said: str) -> Outcome:
    rows = re.findall(r"^(\d+) +([\d.]+)", said, re.MULTILINE)
    shown = {bytes_text(int(n)): float(t) * 1e-6 for n, t in rows if int(n) in SHOWN_BYTES}
    if not shown:
        raise Unreadable(said[-300:])
    return Outcome(shown, True)


# ---- an engine without MPI


def embed_missing(place: Place, _: dict) -> str:
    return "" if (place.programs / "bench_embed").exists() else "no bench_embed (make build)"


def embed_command(place: Place, _: dict, __: str, ranks: int, folder: Path) -> list[str]:
    return [str(place.programs / "bench_embed"), str(ranks), str(folder / "out.json")]


def all_apps() -> list[App]:
    full = "dev/setup full unpacks it"
    return [
        nas("is", "NAS IS: sorts integers (Alltoallv)"),
        nas("ft", "NAS FT: Fourier transforms (Alltoall)"),
        nas("cg", "NAS CG: conjugate gradients (messages of two ranks)"),
        nas("mg", "NAS MG: multigrid (borders of many sizes)"),
        own("halo2d", "2-D halo exchange (vector datatypes)", "halo", lambda size, _: list(HALO[size]), read_halo),
        nas("halo3d", "3-D halo exchange (subarray datatypes)"),
        own("matmul", "matrix multiplication (Allgather)", "matmul", matmul_words, read_matmul),
        App("heat", "heat equation in Python (mpi4py, NumPy)", no_mpi4py, heat_command, read_json),
        App("jacobi", "Jacobi's iteration in Fortran (mpi_f08, else mpi)", jacobi_missing, jacobi_command, read_json,
            system="too"),
        App("lammps", "LAMMPS: Lennard-Jones melt", found("LAMMPS", lambda p: unpacked(p, "lmp"), full), lammps_command,
            read_lammps, libraries=unpacked_libraries),
        App("hpcc", "HPC Challenge: HPL, PTRANS, RandomAccess, FFT, latencies",
            found("hpcc", lambda p: unpacked(p, "hpcc"), full), hpcc_command, read_hpcc, libraries=unpacked_libraries),
        system_app("boost", "Boost.MPI: records, all_to_all", "libboost-mpi-dev", "boost.cpp", "boost/mpi.hpp",
                   ["-lboost_mpi", "-lboost_serialization"]),
        system_app("petsc", "PETSc: conjugate gradients, Jacobi", "petsc-dev", "petsc.c", "PETSc", []),
        system_app("hdf5", "parallel HDF5, collective", "libhdf5-openmpi-dev", "hdf5.c", "hdf5-openmpi", []),
        App("imb", "Intel MPI Benchmarks: PingPong, Sendrecv, collectives",
            found("IMB", imb_binary, "it comes with Intel's wheel (dev/setup)"), imb_command, read_imb, classes=("-",)),
        *map(osu_app, OSU),
        App("embed", "an engine without MPI: zerohop.h beside pipes", embed_missing, embed_command, read_json,
            classes=("-",), alone="pipes"),
    ]  # fmt: skip
