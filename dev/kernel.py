#!/usr/bin/env python3
"""Builds the kernel module against Debian's kernels and tests it in virtual machines, by software emulation.

    dev/kernel.py                    each kernel: build, boot, the module's tests by name, then MPI programs
    dev/kernel.py --compile          build alone, against the oldest kernel
    dev/kernel.py --mutations        the module without one of its checks: the test named beside it must fail
    dev/kernel.py --checked          the tests in a kernel with KASAN, lockdep and kmemleak, a planted fault for each
    dev/kernel.py --only revoke      the module's tests whose names contain a word
    dev/kernel.py --mpi              the MPI programs alone

Kernels and headers are downloaded into build/kernel and unpacked there; nothing is installed. It needs apt, gcc, make,
qemu-system-x86 and cpio; for MPI programs `make build` and MPICH (dev/setup). Where something is missing it fails,
unless ZH_NO_KERNEL_CHECK=1 says that this is meant; --compile is skipped where the system is not Debian on x86-64.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import kernel_mpi
from machines import checked_kernel
from machines.commands import Missing, need, run
from machines.virtual import Files, ended_well

ROOT = Path(__file__).resolve().parent.parent
WORK = ROOT / "build" / "kernel"
UNPACKED = WORK / "root"
KERNELS = ("cloud-amd64", "6.12-cloud-amd64")  # of the packages linux-headers-* and linux-image-*, oldest first
TESTS = ROOT / "tests" / "kernel"
# Of 32 bits without a library: Debian's compiler needs no other package for it.
WORD32 = "-m32 -ffreestanding -nostdlib -fno-pie -no-pie -fno-stack-protector -idirafter /usr/include/x86_64-linux-gnu"

# The build with faults has tests of its own, which need it.
INIT = """
insmod /zerohop.ko || rc=insmod
[ -n "$rc" ] || { module_test {words}; rc=$?; }
rmmod zerohop || rc=rmmod
leaks=/sys/kernel/debug/kmemleak
[ ! -e $leaks ] || { sleep 6; echo scan >$leaks; sleep 1; echo scan >$leaks; cat $leaks; }
"""
FAULTS = "faults"  # how the names of those tests begin


@dataclasses.dataclass
class Mutation:
    file: str
    old: str
    new: str
    test: str
    kernel: str = KERNELS[-1]
    finds: str = ""  # what the machine must say of it, where not the test but the kernel finds it


MUTATIONS = (
    Mutation("context.c", "uid_eq(current_euid(), context->user->uid)", "true", "user.other_is_refused"),
    Mutation("context.c", "crypto_memneq(context->secret, secret, ZEROHOP_SECRET_BYTES)", "false",
             "context.each_secret_has_its_own"),
    Mutation("context.c", "user->contexts >= READ_ONCE(pool_contexts)", "false", "limits.contexts_are_counted"),
    Mutation("context.c", "file->member = ++context->last_member;", "file->member = context->members;",
             "member.numbers_are_used_once"),
    Mutation("context.c", "zh_context_put(context);\n\t\treturn err;", "return err;", "faults.in_each_call"),
    Mutation("copy.c", "c->segments[i].bytes > bytes - c->segments[i].at", "false", "copy.stays_within"),
    Mutation("copy.c", "!(target->region->flags & target->needs)", "false", "copy.keeps_the_direction"),
    Mutation("copy.c", "target->region && zh_region_covers(target->region, segment->at, segment->bytes)",
             "target->region", "member.each_segment_has_a_region"),
    Mutation("copy.c", "__copy_from_user(kernel, user, bytes)", "copy_from_user(kernel, user, bytes)",
             "copy.tells_what_it_did"),
    Mutation("internal.h", "bytes - 1 <= region->range.last - start", "true", "member.addresses"),
    Mutation("pool.c", "rlimit(RLIMIT_MEMLOCK) >> PAGE_SHIFT || capable", "ULONG_MAX || capable",
             "pool.pages_are_counted"),
    Mutation("pool.c", "region->page_count > rlimit(RLIMIT_MEMLOCK)", "(false)", "pool.pages_are_counted"),
    Mutation("pool.c", "now + pages > most", "false", "limits.pool_is_of_all_contexts"),
    Mutation("pool.c", "user->count >= READ_ONCE(pool_regions)", "false", "pool.evicts_the_least_used"),
    Mutation("pool.c", "kref_read(&region->refs) == 1", "true", "limits.full_pool_in_use"),
    Mutation("region.c", "(region->live && keeps_pages(event))", "true", "revoke.by_unmap"),
    Mutation("region.c", "region->owner == file", "true", "register.unregister_is_the_owners"),
    Mutation("region.c", "current->mm != file->mm", "false", "file.inherited"),
    Mutation("region.c", "(region->flags & flags) == flags && zh_region_covers", "zh_region_covers",
             "member.direction_is_kept"),
    Mutation("region.c", "WRITE_ONCE(region->used, true);\n\t\t\treturn", "return", "reuse.is_seen_by_eviction"),
    Mutation("region.c", "call->flags & ZEROHOP_REUSE && reuse", "reuse", "reuse.what_covers_is_given"),
    Mutation("pin.c", "!is_vm_hugetlb_page(vma)", "true", "memory.huge_pages_of_the_system"),
    Mutation("pin.c", "!writes || !vma->vm_ops ||", "true ||", "memory.files", KERNELS[0]),
    Mutation("pin.c", "folio_test_anon(folio) &&\n\t       (", "(!folio_test_anon(folio) || ", "memory.never_touched"),
    Mutation("pin.c", "left && any_private &&", "false &&", "memory.files"),
    Mutation("pin.c", "vma->vm_flags & VM_MAYSHARE", "vma->vm_flags & VM_SHARED", "memory.files"),
    Mutation("pin.c", "(PageAnonExclusive(page) ||", "(true ||", "memory.shared_with_a_child"),
    Mutation("pin.c", "(atomic_read(&page->_mapcount) < 0 && PageAnonExclusive(&folio->page))", "false",
             "memory.transparent_huge_pages"),
    Mutation("pin.c", "atomic_read(&page->_mapcount) < 0 &&", "", "memory.huge_page_shared_with_a_child"),
    Mutation("region.c", "err = zh_look(region);\n\t\tif (!err && !region->pages)\n\t\t\terr = make_place(region);",
             "err = region->pages ? 0 : make_place(region); if (!err) err = zh_look(region);",
             "memory.refused_before_others_go"),
    Mutation("region.c", "flush_workqueue(forgetting);", "", "pool.what_goes_makes_room"),
    Mutation("region.c", "kvfree(region->pages);", "", "faults.nothing_is_left"),
    Mutation("region.c", "atomic64_inc(&file->context->registered);",
             "schedule_timeout_uninterruptible(6 * HZ); call->region = region->number;",
             "load.registered_and_ended_at_once"),
    Mutation("main.c", "call.size != theirs", "false", "abi.other_sizes"),
    Mutation("main.c", "sizeof(struct zerohop_unregister), 16, 0", "sizeof(struct zerohop_unregister), 16, 16",
             "abi.writes_what_it_answers"),
    Mutation("main.c", "compat_ptr_ioctl", "NULL", "abi.of_32_bits"),
)  # fmt: skip
CHECKED = "checked"
WATCHED = (
    Mutation("region.c", "kfree_rcu(region, rcu);", "kfree(region); WRITE_ONCE(region->used, true);",
             "register.unregister_is_the_owners", CHECKED, "KASAN: .*use-after-free in .*zerohop"),
    Mutation("region.c", "kvfree(region->pages);", "", "register.unregister_is_the_owners", CHECKED,
             "suspected memory leak"),
    Mutation("region.c", "call->region = region->number;\n\t\tcall->address", "cond_resched();\n\t\tcall->address",
             "reuse.what_covers_is_given", CHECKED, "BUG: sleeping function called from invalid context"),
    Mutation("context.c", "mutex_unlock(&joining);\n\tmmdrop(file->mm);",
             "mutex_lock(&file->user->lock); mutex_unlock(&file->user->lock); mutex_unlock(&joining);"
             "mutex_lock(&file->user->lock); mutex_lock(&joining); mutex_unlock(&joining);"
             "mutex_unlock(&file->user->lock); mmdrop(file->mm);",
             "context.each_secret_has_its_own", CHECKED, "possible circular locking dependency"),
)  # fmt: skip


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
    if kernel == CHECKED:
        fetch(KERNELS[-1], image=True)  # for what else it brings
        return checked_kernel.build(WORK / "packages", UNPACKED)
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


def build(version: str, mutation: Mutation | None = None, faults: bool = False, beside: str = "") -> Path:
    """The built module, out of its package; what the compiler or sparse says is an error."""
    need("gcc", "make", "dpkg-deb")
    folder = WORK / f"{FAULTS if faults else 'module'}-{version}{beside}"
    shutil.rmtree(folder, ignore_errors=True)
    package = run([str(ROOT / "dev/kernel_deb"), str(folder)]).strip()
    run(["dpkg-deb", "-x", package, str(folder)])
    (source,) = folder.glob("usr/src/zerohop-*")
    if faults:
        for path in (TESTS / "faults.c", TESTS / "faults.h"):
            shutil.copy(path, source)
        with (source / "Kbuild").open("a") as kbuild:
            kbuild.write("zerohop-y += faults.o\nccflags-y += -include $(src)/faults.h\n")
    if mutation:
        path = source / mutation.file
        text = path.read_text()
        if text.count(mutation.old) != 1:
            raise RuntimeError(f"{mutation.file} has {text.count(mutation.old)} times: {mutation.old}")
        path.write_text(text.replace(mutation.old, mutation.new))
    sparse = ["C=1"] if shutil.which("sparse") and not mutation and not faults else []
    headers = UNPACKED / "usr/src" / f"linux-headers-{version}"
    said = run(["make", "-s", "-C", str(source), f"KDIR={headers}", *sparse])
    if not mutation and (lines := [line for line in said.splitlines() if "Skipping BTF" not in line]):
        raise RuntimeError("\n".join(lines))
    module = folder / "zerohop.ko"
    run(["strip", "--strip-debug", "-o", str(module), str(source / "zerohop.ko")])
    return module


def tests_with(version: str, module: Path, words: str, beside: str = "") -> tuple[int, int, str]:
    """Passed and failed tests, and what the machine said; one that did not end as it should is one that failed."""
    files = Files(WORK / f"machine-{version}{beside}", UNPACKED / "bin/busybox")
    files.add(module, "zerohop.ko")
    alone = ("leave.c", "apart.c", "word32.c", "faults.c")
    sources = [str(path) for path in sorted(TESTS.glob("*.c")) if path.name not in alone]
    files.compile("module_test", "-pthread", f"-I{ROOT}", *sources)
    files.compile("word32", *WORD32.split(), f"-I{ROOT}", str(TESTS / "word32.c"))
    files.compile("leave", str(TESTS / "leave.c"))
    said = files.boot(UNPACKED / f"boot/vmlinuz-{version}", INIT.replace("{words}", words))
    tests = re.findall(r"^(\S+) +(passed|FAILED) +[\d.]+ s$", said, re.MULTILINE)
    passed = sum(state == "passed" for _, state in tests)
    return passed, max(len(tests) - passed, 0 if ended_well(said) and passed == len(tests) > 0 else 1), said


def runs_of(version: str, words: str, mpi: bool) -> Iterator[tuple[int, int, str]]:
    module = build(version)
    if not mpi and not words.startswith(FAULTS):
        yield tests_with(version, module, words)
    if not mpi and (not words or words.startswith(FAULTS)):
        yield tests_with(version, build(version, faults=True), words or FAULTS)
    if (mpi or not words) and version.endswith(KERNELS):
        files = Files(WORK / f"mpi-{version}", UNPACKED / "bin/busybox")
        yield kernel_mpi.run_in(files, UNPACKED / f"boot/vmlinuz-{version}", module)


def tested(words: str, mpi: bool, kernels: tuple[str, ...]) -> tuple[int, int]:
    passed = failed = 0
    for kernel in kernels:
        version = fetch(kernel, image=True)
        print(f"kernel {version}", flush=True)
        for good, bad, said in runs_of(version, words, mpi):
            print(said if bad else "\n".join(re.findall(r"^\S+ +passed.*", said, re.MULTILINE)), flush=True)
            passed, failed = passed + good, failed + bad
    return passed, failed


def mutated(words: str, table: tuple[Mutation, ...]) -> tuple[int, int]:
    """A machine boots on one processor, so there are as many at a time as processors."""
    found, mutations = 0, [m for m in table if words in m.test]
    versions = {kernel: fetch(kernel, image=True) for kernel in {m.kernel for m in mutations}}

    def said_of(k: int) -> str:
        m, beside, version = mutations[k], f"-{k}", versions[mutations[k].kernel]
        return tests_with(version, build(version, m, m.test.startswith(FAULTS), beside), m.test, beside)[2]

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for m, said in zip(mutations, pool.map(said_of, range(len(mutations))), strict=True):
            test_fails = re.search(rf"^{re.escape(m.test)} +FAILED", said, re.MULTILINE) or "Kernel panic" in said
            is_found = re.search(m.finds, said) and not ended_well(said) if m.finds else test_fails
            found += bool(is_found)
            verdict = "finds" if is_found else "MISSES"
            print(f"{m.test:<40} {verdict} {m.file} without {' '.join(m.old.split())}", flush=True)
    return found, len(mutations) - found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--mutations", action="store_true")
    parser.add_argument("--checked", action="store_true")
    parser.add_argument("--mpi", action="store_true")
    parser.add_argument("--only", default="", metavar="WORD")
    a = parser.parse_args()
    passed, failed, skipped = 0, 0, 0
    try:
        if a.compile:
            version = fetch(KERNELS[0], image=False)
            build(version)
            passed = 1
        elif a.mutations:
            passed, failed = mutated(a.only, MUTATIONS)
        elif a.checked:
            parts = tested(a.only, False, (CHECKED,)), mutated(a.only, WATCHED)
            passed, failed = map(sum, zip(*parts, strict=True))
        else:
            passed, failed = tested(a.only, a.mpi, KERNELS)
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
