#!/usr/bin/env python3
"""Python programs on the heap: forks of os and multiprocessing, subprocesses, threads, ctypes.

Run by ctest three ways: as it is, with libzerohop.so preloaded, and with its large memory shared. Large arrays are
numpy's where it is installed, else bytearrays.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import shared_memory

from support import case, expect, in_heap, main

try:
    import numpy
except ImportError:
    numpy = None

SERVED = os.environ.get("ZH_HEAP_MODE") == "shared"
SIZES = (70_000, 1 << 20, 12_000_000)


def new_array(size: int, value: int):
    if numpy is not None:
        return numpy.full(size, value, dtype=numpy.uint8)
    return bytearray([value]) * size


def address(array) -> int:
    if numpy is not None:
        return array.ctypes.data
    return ctypes.addressof((ctypes.c_char * len(array)).from_buffer(array))


def put(array, value: int) -> None:
    array[:] = value if numpy is not None else bytes([value]) * len(array)


def holds(array, value: int) -> bool:
    return bool((array == value).all()) if numpy is not None else array.count(value) == len(array)


def check_served(array) -> None:
    # The middle: a large bytearray may begin in the page of its header.
    found = in_heap(address(array) + len(array) // 2)
    expect(found == SERVED, f"an array of {len(array)} is {'' if found else 'not '}in the heap")


def fork_child(body) -> int:
    pid = os.fork()
    if pid == 0:
        try:
            body()
        except BaseException as problem:
            print(f"child: {problem}", flush=True)
            os._exit(1)
        os._exit(0)
    return pid


def join(pid: int) -> None:
    _, status = os.waitpid(pid, 0)
    expect(status == 0, f"a child ended with status {status:#x}")


@case
def both_sides_of_a_fork_write():
    arrays = [new_array(size, 1) for size in SIZES]
    for array in arrays:
        check_served(array)
    for turn in range(12):
        for array in arrays:
            put(array, turn)
        child_wrote, parent_wrote = os.pipe(), os.pipe()

        def child(turn=turn, child_wrote=child_wrote, parent_wrote=parent_wrote):
            if turn % 2:
                os.read(parent_wrote[0], 1)
            expect(all(holds(a, turn) for a in arrays), "the child's view of its parent's arrays")
            for array in arrays:
                put(array, turn + 50)
            os.write(child_wrote[1], b"x")
            if not turn % 2:
                os.read(parent_wrote[0], 1)
            expect(all(holds(a, turn + 50) for a in arrays), "the child's own")
            more = [new_array(size, 9) for size in SIZES]
            expect(all(holds(a, 9) for a in more), "arrays made in the child")

        pid = fork_child(child)
        if not turn % 2:
            os.read(child_wrote[0], 1)
            expect(all(holds(a, turn) for a in arrays), "the parent's, after the child wrote")
        for array in arrays:
            put(array, turn + 100)
        os.write(parent_wrote[1], b"x")
        join(pid)
        expect(all(holds(a, turn + 100) for a in arrays), "the parent's own")
        for end in (*child_wrote, *parent_wrote):
            os.close(end)


_inherited = []


def _square(index: int):
    array = _inherited[0]
    before = int(array[index])
    put(array, index % 200)
    return before, holds(array, index % 200), new_array(300_000, index % 200)


@case
def multiprocessing_with_fork():
    _inherited[:] = [new_array(SIZES[2], 7)]
    context = multiprocessing.get_context("fork")
    for _ in range(3):
        with context.Pool(3) as pool:
            results = pool.map(_square, range(24), chunksize=8)
        expect(all(good for _, good, _ in results), "a worker saw foreign values")
        # A worker's array holds 7 before its first task, and what it wrote itself before the others.
        expect(all(before in (7, *range(24)) for before, _, _ in results), "a worker saw what none wrote")
        expect(all(holds(array, index % 200) for index, (_, _, array) in enumerate(results)), "results are wrong")
        expect(holds(_inherited[0], 7), "the parent's array changed")


@case
def memory_that_is_meant_to_be_shared():
    block = shared_memory.SharedMemory(create=True, size=4 << 20)
    try:
        private = new_array(4 << 20, 1)

        def child():
            block.buf[:] = b"\x05" * len(block.buf)
            put(private, 5)

        join(fork_child(child))
        expect(bytes(block.buf[:100]) == b"\x05" * 100, "shared memory did not reach the parent")
        expect(holds(private, 1), "private memory did")
    finally:
        block.close()
        block.unlink()
    counter = multiprocessing.get_context("fork").Array("i", 300_000)
    workers = [multiprocessing.get_context("fork").Process(target=counter.__setitem__, args=(i, i)) for i in range(5)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    expect(counter[:5] == list(range(5)), f"a shared array holds {counter[:5]}")


@case
def subprocesses():
    arrays = [new_array(size, 3) for size in SIZES]
    for turn in range(15):
        ran = subprocess.run([sys.executable, "-S", "-c", "print(sum(bytearray(b'x') * 500000))"], capture_output=True)
        expect(ran.returncode == 0 and ran.stdout.strip() == b"60000000", f"a subprocess: {ran}")
        through = subprocess.run(["cat"], input=bytes(arrays[2][: 1 << 20]), capture_output=True)
        expect(through.stdout == bytes(arrays[2][: 1 << 20]), "bytes through a pipe")
        expect(os.system("exit 7") == 7 << 8, "os.system")
        # preexec_fn makes subprocess fork instead of vfork.
        ran = subprocess.run(["true"], preexec_fn=lambda: put(arrays[1], 99))
        expect(ran.returncode == 0, "a subprocess with preexec_fn")
        expect(all(holds(a, 3) for a in arrays), f"arrays after subprocess {turn}")


@case  # long
def new_arrays_are_zero():
    for turn in range(60):
        for size in SIZES:
            old = new_array(size, 200)
            if numpy is not None and turn % 3 == 0:
                inner = (address(old) + 4095) // 4096 * 4096
                libc = ctypes.CDLL(None)
                for protection in (1, 3):
                    expect(libc.mprotect(ctypes.c_void_p(inner), ctypes.c_size_t(16384), protection) == 0, "mprotect")
            del old
            fresh = numpy.zeros(size, dtype=numpy.uint8) if numpy is not None else bytearray(size)
            expect(holds(fresh, 0), f"a new array of {size} holds old data")


@case
def too_large_arrays_are_refused():
    try:
        too_large = numpy.ones(10**14) if numpy is not None else bytearray(10**15)
    except MemoryError:
        return
    expect(False, f"{len(too_large)} elements were given")


@case
def pointers_through_ctypes():
    libc = ctypes.CDLL(None)
    for name in ("malloc", "calloc", "realloc", "strdup"):
        getattr(libc, name).restype = ctypes.c_void_p
    for size in SIZES:
        at = libc.malloc(ctypes.c_size_t(size))
        expect(in_heap(at + size // 2) == SERVED, "malloc through ctypes")
        ctypes.memset(at, 65, size)
        at = libc.realloc(ctypes.c_void_p(at), ctypes.c_size_t(2 * size))
        expect(ctypes.string_at(at, size) == b"A" * size, "realloc through ctypes")
        ctypes.memset(at + size, 0, 1)
        copy = libc.strdup(ctypes.c_void_p(at))
        expect(ctypes.string_at(copy) == b"A" * size, "strdup through ctypes")
        libc.free(ctypes.c_void_p(at))
        libc.free(ctypes.c_void_p(copy))
        buffer = ctypes.create_string_buffer(size)
        expect(buffer.raw == bytes(size), "a new buffer of ctypes")


@case
def threads_that_fork_and_allocate():
    stop = threading.Event()

    def work(index: int) -> int:
        turns = 0
        while not stop.is_set():
            array = new_array(200_000 + index * 1000, index)
            expect(holds(array, index), "an array of a thread")
            turns += 1
        return turns

    mine = new_array(SIZES[1], 11)
    with ThreadPoolExecutor(4) as pool:
        workers = [pool.submit(work, index) for index in range(4)]
        try:
            for _ in range(10):
                join(fork_child(lambda: (expect(holds(mine, 11), "the child's view"), put(mine, 12))))
                expect(holds(mine, 11), "the parent's own")
        finally:
            stop.set()
        expect(all(worker.result() > 0 for worker in workers), "a thread did nothing")


@case
def large_objects_of_the_language():
    numbers = list(range(400_000))
    text = ",".join(map(str, numbers))
    expect(list(map(int, text.split(","))) == numbers, "numbers through text")
    grown = bytearray()
    for turn in range(2000):
        grown += bytes([turn % 256]) * 5000
    expect(len(grown) == 10_000_000 and grown[4999::5000] == bytes(i % 256 for i in range(2000)), "a growing bytearray")
    table = {i: str(i) * 3 for i in range(200_000)}
    expect(all(table[i] == str(i) * 3 for i in range(0, 200_000, 777)), "a large dict")


if __name__ == "__main__":
    sys.exit(main())
