"""What to do about a reason that the library counts. Reasons are its own texts, or their beginnings."""

from __future__ import annotations

UNKNOWN = "docs/user/troubleshooting.md may tell of it"
FALLBACKS = {
    "collectives: not all members have memory for a team": (
        "give each rank more shared memory (ZEROHOP_MEMORY=256M); `zerohop doctor` tells of limits on it"
    ),
    "collectives: reductions of other operations or datatypes": ("use a predefined operation on a predefined datatype"),
    "collectives of neighbours": "make a topology in which each neighbour is another rank",
    "started collectives: between nodes": "use the blocking call between nodes (MPI_Allreduce, not MPI_Iallreduce)",
    "started collectives: operations of the program": "use the blocking call for operations of the program",
    "collectives: the host's by name, table or default": (
        "`zerohop info --collective NAME --size N --ranks P` says who chose it; ZEROHOP_ALGORITHM names another, "
        "`zerohop bench algorithms --save` measures which is the fastest here"
    ),
    "collectives: leaders have as many communicators": "free communicators that are not needed (MPI_Comm_free)",
    "collectives: the host made no communicator of leaders": "free communicators that are not needed (MPI_Comm_free)",
    "messages: on communicators of": "make those communicators and their parents without the info key `zerohop`",
    "single copy by": "nothing: memory went while it was copied, and another way took over",
}
HUGE = "`echo advise > /sys/kernel/mm/transparent_hugepage/shmem_enabled` (or ZEROHOP_HEAP=1: small pages)"
HEAP = {
    "ZEROHOP_": "unset what is named",
    "a limit on private data": "`ulimit -d unlimited`",
    "a limit on the size of files": "`ulimit -f unlimited`",
    "vm.overcommit_memory is 2": "`sysctl -w vm.overcommit_memory=0`",
    "the system's pages are not 4 KiB": "a kernel with pages of 4 KiB",
    "/proc": "`mount -t proc proc /proc`",
    "it has huge pages": HUGE,
    "it may have huge pages": HUGE,
    "too many separate buffers": "send from fewer and larger allocations",
    "it is a stack": "send from allocated memory, not from local variables",
    "it is a file's": "send from allocated memory, not from a mapped file",
    "it is not private memory": "send from memory of malloc or MPI_Alloc_mem",
    "it was never written": "nothing: memory becomes shared after it was written",
    "no memory": "leave more memory of the node free",
    "a forked child may still see it": "nothing: it becomes shared when the child has ended or runs another program",
    "the program's allocator does not tell": "use an allocator that has malloc_usable_size, as glibc's",
    "the program has closed the heap's descriptor": "let the program close only descriptors that it opened",
}
HEAP_UNKNOWN = "docs/design/heap.md names each reason and what to do"


def for_fallback(reason: str) -> str:
    return next((text for start, text in FALLBACKS.items() if reason.startswith(start)), UNKNOWN)


def for_heap(reason: str) -> str:
    return next((text for start, text in HEAP.items() if reason.startswith(start)), HEAP_UNKNOWN)
