"""A program of two ranks that loads a library with large data before MPI starts; started by mpi_cases.py.

mpi_late_program.py [<library>]: prints "late <0|1>" (is the library's initialised data in the heap?) and "done".
"""

import ctypes
import sys

import numpy
from support import in_heap

library = ctypes.CDLL(sys.argv[1]) if len(sys.argv) > 1 else None

from mpi4py import MPI  # noqa: E402  (it initialises MPI)

COUNT = 100_000
comm = MPI.COMM_WORLD
rank = comm.Get_rank()

if library is not None:
    library.zh_library_data.restype = ctypes.c_void_p
    print(f"late {int(in_heap(library.zh_library_data() + (1 << 20)))}", flush=True)
array = numpy.zeros(COUNT, dtype=numpy.int64)
for turn in range(8):
    if rank == 0:
        array[:] = numpy.arange(COUNT) + turn
        comm.Send(array, 1, turn)
    elif rank == 1:
        array[:] = -1
        comm.Recv(array, 0, turn)
        if not (array == numpy.arange(COUNT) + turn).all():
            print(f"FAILED: message {turn} is wrong", flush=True)
            comm.Abort(1)
comm.Barrier()
if rank == 0:
    print("done", flush=True)
