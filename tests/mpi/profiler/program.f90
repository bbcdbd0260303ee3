! What tests/mpi/profilers.py runs in Fortran: an even number of ranks, messages around a ring and sums.
program profiled
  implicit none
  include 'mpif.h'
  integer :: rank, size, error, request, i, got, total, bad, next, before
  integer :: status(MPI_STATUS_SIZE)
  integer :: large(65536), other(65536)
  bad = 0
  call mpi_init(error)
  call mpi_comm_rank(MPI_COMM_WORLD, rank, error)
  call mpi_comm_size(MPI_COMM_WORLD, size, error)
  next = mod(rank + 1, size)
  before = mod(rank + size - 1, size)
  do i = 1, 7
    if (mod(rank, 2) == 0) call mpi_send(rank, 1, MPI_INTEGER, next, i, MPI_COMM_WORLD, error)
    call mpi_recv(got, 1, MPI_INTEGER, before, i, MPI_COMM_WORLD, status, error)
    if (mod(rank, 2) /= 0) call mpi_send(rank, 1, MPI_INTEGER, next, i, MPI_COMM_WORLD, error)
    if (got /= before .or. status(MPI_SOURCE) /= before) bad = bad + 1
  end do
  do i = 1, 3
    large = rank + i
    call mpi_isend(large, 65536, MPI_INTEGER, next, i, MPI_COMM_WORLD, request, error)
    call mpi_recv(other, 65536, MPI_INTEGER, before, i, MPI_COMM_WORLD, status, error)
    call mpi_wait(request, status, error)
    if (other(65536) /= before + i) bad = bad + 1
  end do
  do i = 1, 9
    call mpi_allreduce(rank, total, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, error)
    if (total /= size * (size - 1) / 2) bad = bad + 1
  end do
  if (bad == 0) then
    print '(a,i0,a)', 'rank ', rank, ' good'
  else
    print '(a,i0,a)', 'rank ', rank, ' BAD'
  end if
  call mpi_finalize(error)
end program
