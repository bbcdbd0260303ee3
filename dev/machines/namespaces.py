"""Several machines on one: namespaces with a host name, a network, processes and shared memory of their own.

A head node carries the launcher and, as a bridge, the network; the other nodes hang on it by a pair of virtual network
cards each. Every node's first process is a `cat` on a pipe from here: when the pipe closes, be it that this process was
killed, the head's process ends, and with it the kernel ends all processes of all nodes. Nothing has a name or a file
outside, so nothing can stay behind. Needs root, or user namespaces that anybody may make. Knows nothing of MPI.
"""

from __future__ import annotations

import contextlib
import functools
import os
import shlex
import shutil
import subprocess
import time
from pathlib import Path

NETWORK = "10.77.0"  # seen by the nodes alone
SETUP_TIMEOUT_S = 30
LEFT_ALONE_S = 1  # daemons that end after their launcher; the time of processes that the kernel ends is nobody's
OWN_FOLDER = "/dev/shm/own"  # the same path on each node, and on each another folder; other folders are shared
AGENT = str(Path(__file__).with_name("agent"))  # for the head; Open MPI wants to see it on all nodes

_OWN = ["--mount", "--uts", "--ipc", "--net", "--pid"]

# The process id is read before /proc is the node's own: as those count who start the node.
_BOOT = f"""
read -r pid rest < /proc/self/stat
mount -t proc proc /proc
mount -t sysfs sysfs /sys
ip link set lo up
hostname "$1"
own_memory() {{ mount -t tmpfs tmpfs /dev/shm; mkdir {OWN_FOLDER}; }}
"""
_READY = 'echo "$pid"; exec cat'

_HEAD = f"""{_BOOT}
own_memory
printf '%s\\n' "$2" > /dev/shm/hosts
mount --bind /dev/shm/hosts /etc/hosts
ip link add bridge0 type bridge
ip address add {NETWORK}.254/24 dev bridge0
ip link set bridge0 up
{_READY}
"""

# It begins among the head's files: there the agent looks for its process id. Programs tell kernels apart by boot ids.
_NODE = f"""{_BOOT}
echo "$pid" > "/dev/shm/node.$1"
own_memory
if [ "$2" = True ]; then
  cat /proc/sys/kernel/random/uuid > /dev/shm/boot_id
  mount --bind /dev/shm/boot_id /proc/sys/kernel/random/boot_id
fi
{_READY}
"""
_CABLE = """
ip link add "port$2" type veth peer name eth0 netns "$1"
ip link set "port$2" master bridge0 up
nsenter --target "$1" --net sh -ec "ip address add $3/24 dev eth0; ip link set eth0 up"
"""


class NotPermitted(Exception):
    """This machine gives no such namespaces; says why."""


class Nodes:
    """A head and `count` nodes, from `with` to its end; `enter` and the agent run commands there.

    `own_kernels`: the nodes say that each has a kernel of its own, as machines do.
    """

    def __init__(self, count: int, own_kernels: bool = False):
        self._own_kernels = own_kernels
        self.names = [f"zh-node{i}" for i in range(count)]
        self._holders: list[subprocess.Popen] = []
        self._enter: list[str] = []
        self._idle = 0

    def __enter__(self) -> Nodes:
        try:
            self._set_up()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def enter(self, command: list[str]) -> list[str]:
        """The command line that runs `command` on the head, where AGENT finds the nodes."""
        words = " ".join(map(shlex.quote, command))
        return [*self._enter, "sh", "-c", f"cd {shlex.quote(os.getcwd())} && exec {words}"]

    def close(self) -> None:
        """Ends the nodes and whatever runs on them."""
        until = time.monotonic() + LEFT_ALONE_S
        while self._idle and self._running() > self._idle and time.monotonic() < until:
            time.sleep(0.02)
        for holder in self._holders:  # the head's first
            with contextlib.suppress(OSError):
                holder.stdin.close()
        for holder in self._holders:
            with contextlib.suppress(subprocess.TimeoutExpired):
                holder.wait(timeout=SETUP_TIMEOUT_S)
            holder.stdout.close()
        self._holders.clear()

    def _set_up(self) -> None:
        if missing := [tool for tool in ("ip", "nsenter", "unshare") if not shutil.which(tool)]:
            raise NotPermitted(f"no command {', '.join(missing)}")
        addresses = {name: f"{NETWORK}.{i + 1}" for i, name in enumerate(self.names)}
        lines = ["127.0.0.1 localhost", f"{NETWORK}.254 zh-head", *(f"{a} {n}" for n, a in addresses.items())]
        head = self._head("\n".join(lines))
        for i, name in enumerate(self.names):
            pid = self._hold([*self._enter, "unshare", *_OWN, "--fork"], _NODE, name, str(self._own_kernels))
            command = [*self._enter, "sh", "-ec", _CABLE, "sh", str(pid), str(i), addresses[name]]
            done = subprocess.run(command, capture_output=True, text=True, timeout=SETUP_TIMEOUT_S)
            if done.returncode != 0:
                raise NotPermitted(f"network of {name} (head {head}): {done.stderr.strip()}")
        self._idle = self._running()

    def _running(self) -> int:
        """Processes of all nodes, this look at them included; the ended ones wait for nobody."""
        look = "cat /proc/[0-9]*/status | grep -c '^State:.[^Z]'"
        done = subprocess.run([*self._enter, "sh", "-c", look], capture_output=True, text=True, timeout=SETUP_TIMEOUT_S)
        return int(done.stdout or 0)

    def _head(self, hosts: str) -> int:
        reasons = []
        # Root of a container may lack the right to mount, and yet have it in a user namespace of its own.
        for user in [[], ["--user", "--map-root-user"]][os.geteuid() != 0 :]:
            try:
                pid = self._hold(["unshare", *user, *_OWN, "--fork", "--kill-child"], _HEAD, "zh-head", hosts)
            except NotPermitted as refusal:
                reasons.append(f"{'in a user namespace' if user else 'as root'}: {refusal}")
                continue
            keep = ["--user", "--preserve-credentials"] if user else []
            self._enter = ["nsenter", "--target", str(pid), *keep, *_OWN]
            return pid
        raise NotPermitted("; ".join(reasons))

    def _hold(self, command: list[str], script: str, *arguments: str) -> int:
        """Starts a node's first process; its process id as seen from where `command` begins."""
        holder = subprocess.Popen([*command, "sh", "-ec", script, "sh", *arguments], stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                  start_new_session=True)  # fmt: skip
        self._holders.append(holder)
        said = holder.stdout.readline()
        if said.strip().isdigit():
            return int(said)
        self._holders.remove(holder)
        holder.stdin.close()
        said += holder.stdout.read()
        holder.wait()
        raise NotPermitted(" ".join(said.split()) or f"exit code {holder.returncode}")


@functools.cache
def why_not() -> str:
    """Why there can be no nodes here, or nothing."""
    try:
        with Nodes(1):
            return ""
    except NotPermitted as refusal:
        return str(refusal)
