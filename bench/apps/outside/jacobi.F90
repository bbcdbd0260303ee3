! Jacobi's iteration for Laplace's equation on the unit square: columns on the ranks, their borders by nonblocking
! messages, the largest change by MPI_Allreduce. The field begins as an eigenvector of the iteration, so what it is after
! any number of steps is known. jacobi <points> <steps> <file>: leaves one JSON object there. By mpi_f08; with OLD_MODULE
! by mpi, for hosts that have no mpi_f08 for the compiler at hand.
#ifdef OLD_MODULE
#define REQUEST integer
#else
#define REQUEST type(MPI_Request)
#endif
program jacobi
#ifdef OLD_MODULE
  use mpi
#else
  use mpi_f08
#endif
  implicit none
  integer, parameter :: dp = kind(1d0)
  integer :: ierror, rank, ranks, n, steps, first, last, left, right, step, i, j, unit
  real(dp), allocatable :: now(:, :), next(:, :)
  real(dp) :: pi, begin, in_mpi, seconds, change, largest, error, worst, expected, sums(2), mine(2), slowest
  character(len=256) :: word, path

  call MPI_Init(ierror)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierror)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierror)
  call get_command_argument(1, word)
  read (word, *) n
  call get_command_argument(2, word)
  read (word, *) steps
  call get_command_argument(3, path)
  first = n * rank / ranks + 1
  last = n * (rank + 1) / ranks
  left = merge(rank - 1, MPI_PROC_NULL, rank > 0)
  right = merge(rank + 1, MPI_PROC_NULL, rank < ranks - 1)
  allocate (now(0:n + 1, first - 1:last + 1), next(0:n + 1, first - 1:last + 1))
  pi = acos(-1d0)
  now = 0
  next = 0
  do j = first, last
    do i = 1, n
      now(i, j) = sin(pi * i / (n + 1)) * sin(pi * j / (n + 1))
    end do
  end do
  expected = cos(pi / (n + 1))**steps

  call MPI_Barrier(MPI_COMM_WORLD, ierror)
  in_mpi = 0
  begin = MPI_Wtime()
  do step = 1, steps
    call exchange_borders()
    change = 0
    do j = first, last
      do i = 1, n
        next(i, j) = 0.25_dp * (now(i - 1, j) + now(i + 1, j) + now(i, j - 1) + now(i, j + 1))
        change = max(change, abs(next(i, j) - now(i, j)))
      end do
    end do
    if (mod(step, 10) == 0) call largest_change()
    now(1:n, first:last) = next(1:n, first:last)
  end do
  seconds = MPI_Wtime() - begin

  error = 0
  do j = first, last
    do i = 1, n
      error = max(error, abs(now(i, j) - expected * sin(pi * i / (n + 1)) * sin(pi * j / (n + 1))))
    end do
  end do
  call MPI_Allreduce(error, worst, 1, MPI_DOUBLE_PRECISION, MPI_MAX, MPI_COMM_WORLD, ierror)
  mine = [seconds, in_mpi]
  call MPI_Reduce(mine, sums, 2, MPI_DOUBLE_PRECISION, MPI_SUM, 0, MPI_COMM_WORLD, ierror)
  call MPI_Reduce(seconds, slowest, 1, MPI_DOUBLE_PRECISION, MPI_MAX, 0, MPI_COMM_WORLD, ierror)
  if (rank == 0) then
    open (newunit=unit, file=path, action='write')
    write (unit, '(a, es16.9, a, es13.6, a, a, a, es24.17, a)') '{"seconds": ', slowest, ', "mpi_share": ', &
      sums(2) / sums(1), ', "exact": true, "verified": ', trim(merge('true ', 'false', worst < 1d-11)), &
      ', "value": [', worst, ']}'
    close (unit)
  end if
  call MPI_Finalize(ierror)
  if (.not. worst < 1d-11) error stop 1

contains

  subroutine exchange_borders()
    REQUEST :: request(4)
    real(dp) :: start
    start = MPI_Wtime()
    call MPI_Irecv(now(1, first - 1), n, MPI_DOUBLE_PRECISION, left, 1, MPI_COMM_WORLD, request(1), ierror)
    call MPI_Irecv(now(1, last + 1), n, MPI_DOUBLE_PRECISION, right, 2, MPI_COMM_WORLD, request(2), ierror)
    call MPI_Isend(now(1, first), n, MPI_DOUBLE_PRECISION, left, 2, MPI_COMM_WORLD, request(3), ierror)
    call MPI_Isend(now(1, last), n, MPI_DOUBLE_PRECISION, right, 1, MPI_COMM_WORLD, request(4), ierror)
    call MPI_Waitall(4, request, MPI_STATUSES_IGNORE, ierror)
    in_mpi = in_mpi + MPI_Wtime() - start
  end subroutine exchange_borders

  subroutine largest_change()
    real(dp) :: start
    start = MPI_Wtime()
    call MPI_Allreduce(change, largest, 1, MPI_DOUBLE_PRECISION, MPI_MAX, MPI_COMM_WORLD, ierror)
    in_mpi = in_mpi + MPI_Wtime() - start
  end subroutine largest_change

end program jacobi
