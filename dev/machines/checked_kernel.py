"""A kernel that watches itself: KASAN, lockdep, kmemleak, and what sleeps where it must not.

Debian has none, so one is built from Debian's source, once a version, about ten minutes on two cores.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from machines.commands import need, run

SOURCE = "linux-source-6.12"
CONFIG = """
64BIT SMP NUMA ACPI PCI X86_64_ACPI_NUMA MULTIUSER NAMESPACES USER_NS PID_NS PRINTK TTY SERIAL_8250
SERIAL_8250_CONSOLE BLK_DEV_INITRD RD_GZIP BINFMT_ELF BINFMT_SCRIPT IA32_EMULATION PROC_FS PROC_SYSCTL SYSFS DEVTMPFS
SHMEM TMPFS HUGETLBFS TRANSPARENT_HUGEPAGE MMU_NOTIFIER MEMFD_CREATE CROSS_MEMORY_ATTACH USERFAULTFD MODULES
MODULE_UNLOAD FUTEX EPOLL EVENTFD SIGNALFD TIMERFD POSIX_TIMERS ADVISE_SYSCALLS FILE_LOCKING NET UNIX SYSVIPC CGROUPS
MEMCG MIGRATION COMPACTION KALLSYMS HIGH_RES_TIMERS X86_IOPL_IOPERM FRAME_POINTER UNWINDER_FRAME_POINTER CRYPTO
DEBUG_KERNEL DEBUG_FS KASAN KASAN_GENERIC KASAN_OUTLINE KASAN_VMALLOC PROVE_LOCKING DEBUG_ATOMIC_SLEEP DEBUG_KMEMLEAK
DEBUG_LIST DEBUG_VM DEBUG_OBJECTS DEBUG_OBJECTS_FREE DEBUG_OBJECTS_WORK DEBUG_OBJECTS_RCU_HEAD DETECT_HUNG_TASK
"""
WITHOUT = "SLUB_TINY CPU_MITIGATIONS DEBUG_INFO WERROR"
# A module's build needs neither what the kernel itself was compiled from nor its objects.
SUPERFLUOUS = ("drivers", "fs", "net", "sound", "Documentation", "samples", "crypto", "lib", "mm", "kernel", "block")


def config(tree: Path) -> None:
    """The smallest configuration and what is wanted beside it, each of which must be there in the end."""
    kconfig = tree / "mm/Kconfig"  # nothing that selects it is needed
    kconfig.write_text(re.sub(r"(config MMU_NOTIFIER\n\tbool)\n", r'\1 "MMU notifiers"\n', kconfig.read_text()))
    run(["make", "-s", "tinyconfig"], cwd=tree)
    wanted = [f"CONFIG_{name}=y" for name in CONFIG.split()]
    with (tree / ".config").open("a") as out:
        out.write("\n".join([*wanted, *(f"# CONFIG_{name} is not set" for name in WITHOUT.split())]) + "\n")
    run(["make", "-s", "olddefconfig"], cwd=tree)
    have = (tree / ".config").read_text().split("\n")
    if lost := [line for line in wanted if line not in have]:
        raise RuntimeError(f"{SOURCE} cannot be configured with {', '.join(lost)}")


def build(packages: Path, root: Path) -> str:
    """Builds it, with headers, where `root` has those of Debian's kernels; its version."""
    need("apt-get", "dpkg-deb", "make", "gcc", "flex", "bison", "bc", "xz")
    if not list(packages.glob(f"{SOURCE}_*.deb")):
        print(f"fetching {SOURCE}", flush=True)
        run(["apt-get", "download", SOURCE], cwd=packages)
    package = max(packages.glob(f"{SOURCE}_*.deb"), key=lambda path: path.stat().st_mtime)
    version = package.name.split("_")[1].split("-")[0] + "-checked"
    image, tree = root / f"boot/vmlinuz-{version}", root / f"usr/src/linux-headers-{version}"
    made_with = root / f"boot/wanted-{version}"
    if made_with.exists() and made_with.read_text() == CONFIG + WITHOUT:
        return version
    print(f"building {version}, about ten minutes", flush=True)
    shutil.rmtree(tree, ignore_errors=True)
    tree.mkdir(parents=True)
    unpack = f"dpkg-deb --fsys-tarfile {package} | tar xO ./usr/src/{SOURCE}.tar.xz | tar xJ --strip 1 -C {tree}"
    run(["bash", "-o", "pipefail", "-c", unpack])
    config(tree)
    run(["make", "-s", f"-j{os.cpu_count()}", "LOCALVERSION=-checked", "bzImage", "modules"], cwd=tree)
    for name in SUPERFLUOUS:
        shutil.rmtree(tree / name)
    shutil.copy(tree / "arch/x86/boot/bzImage", image)
    made_with.write_text(CONFIG + WITHOUT)
    return version
