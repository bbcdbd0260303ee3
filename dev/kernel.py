#!/usr/bin/env python3
"""Builds the kernel module against Debian's kernels and tests it in virtual machines, by software emulation.

    dev/kernel.py                    each kernel: build, boot, the module's tests by name
    dev/kernel.py --compile          build alone, against the oldest kernel
    dev/kernel.py --mutations        the module without one of its checks: the test named beside it must fail
    dev/kernel.py --only revoke      the tests whose names contain a word

Kernels and headers are downloaded into build/kernel and unpacked there; nothing is installed. It needs apt, gcc, make,
qemu-system-x86 and cpio. Where something is missing it fails, unless ZH_NO_KERNEL_CHECK=1 says that this is meant;
--compile is skipped where the system is not Debian on x86-64.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WORK = ROOT / "build" / "kernel"
UNPACKED = WORK / "root"
KERNELS = ("cloud-amd64", "6.12-cloud-amd64")  # of the packages linux-headers-* and linux-image-*, oldest first
BOOT_LIMIT_S = 600
VM = shlex.split(
    "qemu-system-x86_64 -machine q35 -accel tcg,thread=multi -cpu max -m 768 -smp 4,sockets=2,cores=2,threads=1 "
    "-object memory-backend-ram,id=m0,size=384M -object memory-backend-ram,id=m1,size=384M "
    "-numa node,nodeid=0,cpus=0-1,memdev=m0 -numa node,nodeid=1,cpus=2-3,memdev=m1 -numa dist,src=0,dst=1,val=21 "
    "-nodefaults -no-user-config -display none -monitor none -no-reboot -device isa-debug-exit,iobase=0xf4,iosize=1"
)
# slub_debug and KFENCE find uses after free and writes beyond; a warning ends the machine without its closing line.
COMMAND_LINE = (
    "console=ttyS0 quiet loglevel=4 panic=-1 oops=panic panic_on_warn=1 no_timer_check mitigations=off nokaslr "
    "slub_debug=FZPU kfence.sample_interval=1"
)
ENDED_WELL = 33  # of qemu: what tests/kernel/leave.c writes for 0
TAINTED = "12288"  # a module from outside the kernel's tree, unsigned: no warning, no bad page

INIT = """#!/bin/sh
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
mkdir -p /dev/shm
mount -t tmpfs tmpfs /dev/shm
insmod /zerohop.ko || { echo "@@END rc=insmod tainted="; leave 1; }
module_test {words}
rc=$?
rmmod zerohop || rc=rmmod
echo "@@END rc=$rc tainted=$(cat /proc/sys/kernel/tainted) $(dmesg | grep -cE 'BUG|KFENCE:|leak')"
[ "$rc" = 0 ]
leave $?
"""


@dataclasses.dataclass
class Mutation:
    file: str
    old: str
    new: str
    test: str


MUTATIONS = (
    Mutation("context.c", "uid_eq(current_euid(), context->user)", "true", "user.other_is_refused"),
    Mutation("context.c", "!crypto_memneq(context->secret, secret, ZEROHOP_SECRET_BYTES)", "true",
             "context.other_has_no_region"),
    Mutation("copy.c", "c->segments[i].bytes > bytes - c->segments[i].at", "false", "copy.stays_within"),
    Mutation("copy.c", "!(region->flags & (to_region ? ZEROHOP_WRITE : ZEROHOP_READ))", "false",
             "copy.keeps_the_direction"),
    Mutation("region.c", "rlimit(RLIMIT_MEMLOCK) >> PAGE_SHIFT || capable", "ULONG_MAX || capable",
             "pool.pages_are_counted"),
    Mutation("region.c", "&& !keeps_pages(range)", "&& false", "revoke.by_unmap"),
    Mutation("region.c", "region->owner == file)\n\t\ttaken", "true)\n\t\ttaken", "register.unregister_is_the_owners"),
    Mutation("region.c", "region->page_count > rlimit(RLIMIT_MEMLOCK)", "(false)", "pool.pages_are_counted"),
    Mutation("region.c", "flush_workqueue(forgetting);", "", "pool.what_goes_makes_room"),
    Mutation("region.c", "atomic64_inc(&file->context->registered);",
             "schedule_timeout_uninterruptible(6 * HZ); call->region = region->number;",
             "load.registered_and_ended_at_once"),
    Mutation("copy.c", "__copy_from_user(kernel, user, bytes)", "copy_from_user(kernel, user, bytes)",
             "copy.tells_what_it_did"),
    Mutation("main.c", "call.size != theirs", "false", "abi.other_sizes"),
    Mutation("main.c", "sizeof(struct zerohop_unregister), 16, 0", "sizeof(struct zerohop_unregister), 16, 16",
             "abi.writes_what_it_answers"),
)  # fmt: skip


class Missing(Exception):
    """What this machine lacks."""


def run(command: list[str], **more) -> str:
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, **more)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: exit code {done.returncode}\n{done.stdout[-4000:]}")
    return done.stdout


def need(*tools: str) -> None:
    if missing := [tool for tool in tools if not shutil.which(tool)]:
        raise Missing(f"no {', '.join(missing)} (Debian: apt install qemu-system-x86 cpio gcc make)")


def depends(package: str) -> list[str]:
    """Of what it depends; where apt knows nothing of it yet, as on a fresh system, it may learn once."""
    for command in (["apt-cache", "depends", package], ["apt-get", "update", "-q"], ["apt-cache", "depends", package]):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if names := re.findall(r"Depends: (\S+)", done.stdout):
            return names
    raise Missing(f"no package {package} (it is Debian's; apt-get update)")


def fetch(kernel: str, *, image: bool) -> str:
    """Downloads and unpacks a kernel and its headers, once a version; its version."""
    need("apt-get", "apt-cache", "dpkg")
    headers = depends(f"linux-headers-{kernel}")[0]
    version = headers.removeprefix("linux-headers-")
    wanted = [headers, *(p for p in depends(headers) if re.search("-common|linux-kbuild|linux-compiler", p))]
    wanted += [f"linux-image-{version}", "busybox-static"] if image else []
    packages = WORK / "packages"
    packages.mkdir(parents=True, exist_ok=True)
    for package in wanted:
        unpacked = packages / f"{package}.unpacked"
        if not unpacked.exists():
            print(f"fetching {package}", flush=True)
            run(["apt-get", "download", package], cwd=packages)
            run(["dpkg", "-x", str(next(packages.glob(f"{package}_*.deb"))), str(UNPACKED)])
            unpacked.touch()
    makefile = UNPACKED / "usr/src" / headers / "Makefile"  # it names its neighbour by where a package would lie
    makefile.write_text(re.sub(r"include /usr/src", f"include {UNPACKED}/usr/src", makefile.read_text()))
    return version


def build(version: str, mutation: Mutation | None = None) -> Path:
    """The folder of the built module; what the compiler or sparse says is an error."""
    folder = WORK / f"module-{version}"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(ROOT / "kernel", folder / "kernel")
    shutil.copytree(ROOT / "include/uapi", folder / "include/uapi")
    if mutation:
        source = folder / "kernel" / mutation.file
        text = source.read_text()
        if text.count(mutation.old) != 1:
            raise RuntimeError(f"{mutation.file} has {text.count(mutation.old)} times: {mutation.old}")
        source.write_text(text.replace(mutation.old, mutation.new))
    need("gcc", "make")
    sparse = ["C=1"] if shutil.which("sparse") and not mutation else []
    headers = UNPACKED / "usr/src" / f"linux-headers-{version}"
    # BTF, which needs pahole, is for tracing by others.
    said = run(
        ["make", "-s", "-C", str(folder / "kernel"), f"KDIR={headers}", "CONFIG_DEBUG_INFO_BTF_MODULES=", *sparse]
    )
    if not mutation and (lines := [line for line in said.splitlines() if "Skipping BTF" not in line]):
        raise RuntimeError("\n".join(lines))
    return folder / "kernel"


def boot(version: str, module: Path, words: str) -> str:
    """What the machine said; it runs the tests whose names contain `words`."""
    need("qemu-system-x86_64", "cpio", "gcc")
    folder = WORK / f"machine-{version}"
    shutil.rmtree(folder, ignore_errors=True)
    for name in ("bin", "proc", "sys", "dev"):
        (folder / "files" / name).mkdir(parents=True)
    files = folder / "files"
    shutil.copy(UNPACKED / "bin/busybox", files / "bin")
    (files / "bin/sh").symlink_to("busybox")
    run(["strip", "--strip-debug", "-o", str(files / "zerohop.ko"), str(module / "zerohop.ko")])
    tests = ROOT / "tests/kernel"
    sources = [str(p) for p in sorted(tests.glob("*.c")) if p.name != "leave.c"]
    static = ["gcc", "-O1", "-g", "-static", "-pthread", f"-I{ROOT}", "-Wall", "-Wextra", "-Werror", "-o"]
    run([*static, str(files / "bin/module_test"), *sources])
    run([*static, str(files / "bin/leave"), str(tests / "leave.c")])
    (files / "init").write_text(INIT.replace("{words}", words))
    (files / "init").chmod(0o755)
    run(["sh", "-c", "find . | cpio -o -H newc | gzip -1 > ../initrd.gz"], cwd=files)
    command = [*VM, "-serial", f"file:{folder}/log", "-kernel", str(UNPACKED / f"boot/vmlinuz-{version}")]
    command += ["-initrd", str(folder / "initrd.gz"), "-append", COMMAND_LINE]
    try:
        code = subprocess.run(command, timeout=BOOT_LIMIT_S, check=False).returncode
    except subprocess.TimeoutExpired:
        code = f"none within {BOOT_LIMIT_S} s"
    said = (folder / "log").read_text(errors="replace") if (folder / "log").exists() else ""
    return f"{said}\n@@QEMU {code}"


def judge(said: str) -> tuple[int, int]:
    """Passed and failed tests; a machine that did not end as it should is one that failed."""
    tests = re.findall(r"^(\S+) +(passed|FAILED) +[\d.]+ s\r?$", said, re.MULTILINE)
    passed = sum(state == "passed" for _, state in tests)
    end = re.search(r"@@END rc=(\S*) tainted=(\S*) (\d+)", said)
    well = end and end.groups() == ("0", TAINTED, "0") and f"@@QEMU {ENDED_WELL}" in said and passed == len(tests) > 0
    return passed, max(len(tests) - passed, 0 if well else 1)


def tested(words: str) -> tuple[int, int]:
    passed = failed = 0
    for kernel in KERNELS:
        version = fetch(kernel, image=True)
        print(f"kernel {version}", flush=True)
        said = boot(version, build(version), words)
        good, bad = judge(said)
        print(said if bad else "\n".join(re.findall(r"^\S+ +passed.*?s", said, re.MULTILINE)), flush=True)
        passed, failed = passed + good, failed + bad
    return passed, failed


def mutated() -> tuple[int, int]:
    version = fetch(KERNELS[-1], image=True)
    found = 0
    for m in MUTATIONS:
        said = boot(version, build(version, m), m.test)
        is_found = re.search(rf"^{re.escape(m.test)} +FAILED", said, re.MULTILINE) or "Kernel panic" in said
        found += bool(is_found)
        print(
            f"{m.test:<40} {'finds' if is_found else 'MISSES'} {m.file} without {' '.join(m.old.split())}", flush=True
        )
    return found, len(MUTATIONS) - found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--mutations", action="store_true")
    parser.add_argument("--only", default="", metavar="WORD")
    a = parser.parse_args()
    passed, failed, skipped = 0, 0, 0
    try:
        if a.compile:
            version = fetch(KERNELS[0], image=False)
            build(version)
            passed = 1
        else:
            passed, failed = mutated() if a.mutations else tested(a.only)
    except Missing as why:
        print(f"dev/kernel.py: {why}", file=sys.stderr)
        here = os.uname().machine == "x86_64" and "ID=debian" in Path("/etc/os-release").read_text().split()
        skipped = int((a.compile and not here) or os.environ.get("ZH_NO_KERNEL_CHECK") == "1")
        failed = 1 - skipped
    except RuntimeError as why:
        print(f"dev/kernel.py: {why}", file=sys.stderr)
        failed = 1
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
