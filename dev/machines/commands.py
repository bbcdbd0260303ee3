"""Commands that must succeed."""

from __future__ import annotations

import shutil
import subprocess


class Missing(Exception):
    """What this machine lacks."""


def run(command: list[str], **more) -> str:
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, **more)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: exit code {done.returncode}\n{done.stdout[-4000:]}")
    return done.stdout


def need(*tools: str) -> None:
    if missing := [tool for tool in tools if not shutil.which(tool)]:
        raise Missing(f"no {', '.join(missing)} (dev/setup kernel)")
