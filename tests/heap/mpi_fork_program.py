"""A program of two or more ranks that forks while messages are under way; started by mpi_cases.py.

Prints "served <0|1> data <0|1>" from rank 0 (are arrays, and a library's initialised data, shared?) and "done".
With an argument "die", rank 1 ends itself by SIGKILL in the middle of large transfers.
"""

import ctypes
import os
import signal
import sys
import threading

import numpy
from mpi4py import MPI
from support import in_heap

COUNT = 1_000_000
comm = MPI.COMM_WORLD
rank, size = comm.Get_rank(), comm.Get_size()
right, left = (rank + 1) % size, (rank - 1) % size


def pattern(turn: int, who: int, count: int = COUNT):
    return numpy.arange(count, dtype=numpy.int64) * 7 + turn * 1000 + who


def fork_and_scribble(arrays, wait_for=None) -> int:
    """A child that keeps what it saw, writes everything, and sees only its own."""
    before = [array.copy() for array in arrays]
    pid = os.fork()
    if pid:
        return pid
    if wait_for is not None:
        os.read(wait_for, 1)
    good = all((a == b).all() for a, b in zip(arrays, before, strict=True))
    for index, array in enumerate(arrays):
        array[:] = -1 - index
    good = good and all((a == -1 - index).all() for index, a in enumerate(arrays))
    os._exit(0 if good else 1)


def must(condition: bool, what: str) -> None:
    if not condition:
        print(f"FAILED rank {rank}: {what}", flush=True)
        comm.Abort(1)


def exchange_with_forks() -> None:
    send, receive = numpy.empty(COUNT, dtype=numpy.int64), numpy.zeros(COUNT, dtype=numpy.int64)
    small = numpy.zeros(20_000, dtype=numpy.int64)
    # Memory becomes shared when messages have used it for a while.
    send[:] = 0
    for turn in range(12):
        comm.Sendrecv(send, right, turn, receive, left, turn)
    if rank == 0:
        library = ctypes.CDLL("libzh_heap_globals.so")
        library.zh_library_data.restype = ctypes.c_void_p
        data = int(in_heap(library.zh_library_data() + (1 << 20)))
        print(f"served {int(in_heap(send.ctypes.data + COUNT))} data {data}", flush=True)
    children = []
    for turn in range(6):
        send[:] = pattern(turn, rank)
        requests = [comm.Irecv(receive, left, turn), comm.Isend(send, right, turn)]
        # The transfer may be going on: what the child writes must reach nobody. What it sees of `receive` is undefined.
        if turn % 2 == 0:
            children.append(fork_and_scribble([send, small]))
        MPI.Request.Waitall(requests)
        must(bool((receive == pattern(turn, left)).all()), f"turn {turn}: a message with a fork inside is wrong")
        must(bool((send == pattern(turn, rank)).all()), f"turn {turn}: the send buffer changed")
        # A child that looks only after later messages have overwritten the parent's buffers.
        gate = os.pipe()
        late = fork_and_scribble([receive, send, small], gate[0])
        small[:] = pattern(turn, rank, len(small))
        comm.Sendrecv_replace(small, right, 500 + turn, left, 500 + turn)
        must(bool((small == pattern(turn, left, len(small))).all()), f"turn {turn}: a small message after a fork")
        comm.Sendrecv(send, right, 900 + turn, receive, left, 900 + turn)
        receive += 1
        total = numpy.zeros(1000, dtype=numpy.int64)
        comm.Allreduce(receive[:1000], total)
        os.write(gate[1], b"x")
        for end in gate:
            os.close(end)
        children.append(late)
    for child in children:
        must(os.waitpid(child, 0)[1] == 0, "a child saw foreign values")
    comm.Barrier()
    if rank == 0:
        print("done", flush=True)


def die_in_the_middle() -> None:
    array = numpy.ones(24 * COUNT, dtype=numpy.int64)
    if rank == 1:
        threading.Timer(0.7, lambda: os.kill(os.getpid(), signal.SIGKILL)).start()
    while True:
        if rank == 0:
            comm.Send(array, 1)
            comm.Recv(array, 1)
        elif rank == 1:
            comm.Recv(array, 0)
            comm.Send(array, 0)


if sys.argv[1:] == ["die"]:
    die_in_the_middle()
else:
    exchange_with_forks()
