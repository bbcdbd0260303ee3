"""A virtual machine of QEMU, without hardware support: a kernel of Debian's, and a few files in memory.

Two sockets with a NUMA node each. It ends by the program of tests/kernel/leave.c; its console is what it says.
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from pathlib import Path

from machines.commands import Missing, need, run

BOOT_LIMIT_S = 2400  # of a loaded machine
QEMU = shlex.split(
    "qemu-system-x86_64 -machine q35 -accel tcg,thread=multi -cpu max -m 1024 -smp 4,sockets=2,cores=2,threads=1 "
    "-object memory-backend-ram,id=m0,size=512M -object memory-backend-ram,id=m1,size=512M "
    "-numa node,nodeid=0,cpus=0-1,memdev=m0 -numa node,nodeid=1,cpus=2-3,memdev=m1 -numa dist,src=0,dst=1,val=21 "
    "-nodefaults -no-user-config -display none -monitor none -no-reboot -device isa-debug-exit,iobase=0xf4,iosize=1"
)
# slub_debug and KFENCE find uses after free and writes beyond; a warning ends the machine without its closing line.
# With page tables of five levels KASAN finds faults in the kernel itself.
COMMAND_LINE = (
    "console=ttyS0 quiet loglevel=4 panic=-1 oops=panic panic_on_warn=1 no_timer_check mitigations=off nokaslr "
    "slub_debug=FZPU kfence.sample_interval=1 no5lvl"
)
ENDED_WELL = 33  # of qemu: what tests/kernel/leave.c writes for 0
TAINTED = ("4096", "12288")  # a module from outside the tree, unsigned where that counts: no warning, no bad page

INIT = """#!/bin/sh
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
mkdir -p /dev/shm /tmp
chmod 1777 /tmp
mount -t tmpfs -o mode=1777 tmpfs /dev/shm
mount -t debugfs debugfs /sys/kernel/debug 2>/dev/null
errors='BUG|KFENCE:|KASAN:|WARNING: |INFO: task|suspected memory leak'
{what}
dmesg | grep -E "$errors"
echo "@@END rc=$rc tainted=$(cat /proc/sys/kernel/tainted) $(dmesg | grep -cE "$errors")"
[ "$rc" = 0 ]
leave $?
"""


class Files:
    """What is in the machine: a folder that becomes its memory's first files."""

    def __init__(self, folder: Path, busybox: Path):
        shutil.rmtree(folder, ignore_errors=True)
        self.folder, self.root = folder, folder / "files"
        for name in ("bin", "proc", "sys", "dev", "etc"):
            (self.root / name).mkdir(parents=True)
        shutil.copy(busybox, self.root / "bin")
        (self.root / "bin/sh").symlink_to("busybox")

    def add(self, source: Path, at: str = "") -> None:
        """A file, where it is here or at another place."""
        target = self.root / (at or str(source.absolute())).lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, target)

    def add_program(self, source: Path, **environment: str) -> None:
        """With the libraries that it loads, where they are here."""
        said = run(["ldd", str(source)], env=environment or None)
        if lost := re.findall(r"^\s*(\S+) => not found", said, re.MULTILINE):
            raise Missing(f"{', '.join(lost)}, which {source} loads")
        for path in (source, *map(Path, re.findall(r"(/\S+) \(0x", said))):
            if not (self.root / str(path).lstrip("/")).exists():
                self.add(path)

    def compile(self, name: str, *words: str) -> None:
        """A program without libraries, into bin/."""
        need("gcc")
        run(["gcc", "-O1", "-g", "-static", "-Wall", "-Wextra", "-Werror", *words, "-o", str(self.root / "bin" / name)])

    def boot(self, kernel: Path, init: str) -> str:
        """What the machine said, which ran `init`: it leaves 0 in $rc."""
        need("qemu-system-x86_64", "cpio")
        (self.root / "init").write_text(INIT.replace("{what}", init))
        (self.root / "init").chmod(0o755)
        run(["sh", "-c", "find . | cpio -o -H newc | gzip -1 > ../initrd.gz"], cwd=self.root)
        log = self.folder / "log"
        command = [*QEMU, "-serial", f"file:{log}", "-kernel", str(kernel), "-initrd", str(self.folder / "initrd.gz")]
        try:
            code = subprocess.run([*command, "-append", COMMAND_LINE], timeout=BOOT_LIMIT_S, check=False).returncode
        except subprocess.TimeoutExpired:
            code = f"none within {BOOT_LIMIT_S} s"
        said = log.read_text(errors="replace") if log.exists() else ""
        return f"{said}\n@@QEMU {code}".replace("\r", "")


def ended_well(said: str) -> bool:
    end = re.search(r"@@END rc=(\S*) tainted=(\S*) (\d+)", said)
    return bool(end) and end[1] == end[3] == "0" and end[2] in TAINTED and f"@@QEMU {ENDED_WELL}" in said
