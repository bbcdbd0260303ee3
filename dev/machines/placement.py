"""Where the ranks of a job are: on one machine, pretended nodes of it (4n2), or several machines (4@2, cyclic 4@2c)."""

from __future__ import annotations

import collections
import dataclasses
import re

_FORM = re.compile(r"(\d+)(?:n(\d+)|@(\d+)(c?))?")


@dataclasses.dataclass(frozen=True)
class Placement:
    """`node_ranks`: zerohop is told so (the setting node_ranks); `machines`: nodes that the host's launcher goes to."""

    ranks: int
    node_ranks: int = 0
    machines: int = 0
    cyclic: bool = False

    @classmethod
    def parse(cls, text: str) -> Placement:
        match = _FORM.fullmatch(text)
        if not match:
            raise ValueError(f"no such ranks: {text}")
        return cls(int(match[1]), int(match[2] or 0), int(match[3] or 0), bool(match[4]))

    def most_per_machine(self) -> int:
        return -(-self.ranks // max(1, self.machines))

    def machines_used(self) -> int:
        """How many have a rank: neighbours fill one machine after the other."""
        return min(self.ranks, self.machines) if self.cyclic else -(-self.ranks // self.most_per_machine())

    def under_host_alone(self) -> Placement:
        """The same job for a host that knows nothing of pretended nodes."""
        return dataclasses.replace(self, node_ranks=0)

    def node_sizes(self) -> list[int]:
        """For each rank, how many ranks its node has."""
        if self.node_ranks:
            nodes = [rank // self.node_ranks for rank in range(self.ranks)]
        elif self.cyclic:
            nodes = [rank % self.machines for rank in range(self.ranks)]
        else:
            nodes = [rank // self.most_per_machine() for rank in range(self.ranks)]
        sizes = collections.Counter(nodes)
        return [sizes[node] for node in nodes]

    def alone(self) -> bool:
        """Whether no rank has another one on its node."""
        return max(self.node_sizes()) == 1

    def together(self) -> bool:
        """Whether all ranks share one node."""
        return min(self.node_sizes()) == self.ranks

    def __str__(self) -> str:
        if self.machines:
            return f"{self.ranks}@{self.machines}{'c' if self.cyclic else ''}"
        return f"{self.ranks}n{self.node_ranks}" if self.node_ranks else str(self.ranks)
