! Point-to-point through the mpi_f08 module, whose bindings take other routes into the C library than mpif.h: persistent
! with Waitall, probe, derived type, request lists. Prints the lines of the C tests.
program f08_program
  use mpi_f08
  implicit none
  integer :: rank, nranks, left, right, cases, failures
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, nranks)
  right = mod(rank + 1, nranks)
  left = mod(rank + nranks - 1, nranks)
  cases = 0
  failures = 0
  call report('fortran.nonblocking', nonblocking())
  call report('fortran.persistent', persistent())
  call report('fortran.probe', probe())
  call report('fortran.derived_type', derived_type())
  call report('fortran.cancel', cancel())
  if (rank == 0) print '(I0,A,I0,A)', cases, ' cases, ', failures, ' failed'
  call MPI_Finalize()
  if (failures > 0) stop 1
contains

  subroutine report(name, good)
    character(*), intent(in) :: name
    logical, intent(in) :: good
    logical :: all_good
    call MPI_Allreduce(good, all_good, 1, MPI_LOGICAL, MPI_LAND, MPI_COMM_WORLD)
    cases = cases + 1
    if (.not. all_good) failures = failures + 1
    if (rank == 0) then
      if (all_good) then
        print '(2A)', 'ok ', name
      else
        print '(3A)', 'FAIL ', name, ': wrong on some rank'
      end if
    end if
  end subroutine

  logical function nonblocking()
    integer, parameter :: n = 200
    integer :: i
    integer, asynchronous, save :: in(n), out(n)
    type(MPI_Request) :: requests(2 * n)
    type(MPI_Status) :: statuses(2 * n)
    in = -1
    do i = 1, n
      out(i) = rank * 1000 + i
      call MPI_Irecv(in(i), 1, MPI_INTEGER, left, i, MPI_COMM_WORLD, requests(i))
    end do
    do i = n, 1, -1
      call MPI_Isend(out(i), 1, MPI_INTEGER, right, i, MPI_COMM_WORLD, requests(n + i))
    end do
    call MPI_Waitall(2 * n, requests, statuses)
    nonblocking = .true.
    do i = 1, n
      nonblocking = nonblocking .and. in(i) == left * 1000 + i .and. statuses(i)%MPI_TAG == i
      nonblocking = nonblocking .and. requests(i) == MPI_REQUEST_NULL
    end do
  end function

  logical function persistent()
    integer, parameter :: n = 30000
    integer, asynchronous, save :: in(n), out(n)
    integer :: round, index
    type(MPI_Request) :: requests(2)
    persistent = .true.
    call MPI_Recv_init(in, n, MPI_INTEGER, left, 2, MPI_COMM_WORLD, requests(1))
    call MPI_Send_init(out, n, MPI_INTEGER, right, 2, MPI_COMM_WORLD, requests(2))
    do round = 1, 6
      in = -1
      out = rank * round
      call MPI_Startall(2, requests)
      if (mod(round, 2) == 0) then
        call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE)
      else
        call MPI_Waitany(2, requests, index, MPI_STATUS_IGNORE)
        call MPI_Waitany(2, requests, index, MPI_STATUS_IGNORE)
      end if
      persistent = persistent .and. all(in == left * round)
    end do
    call MPI_Request_free(requests(1))
    call MPI_Request_free(requests(2))
  end function

  logical function probe()
    integer :: n
    integer, asynchronous, save :: out(5000)
    integer, allocatable :: in(:)
    type(MPI_Request) :: request
    type(MPI_Status) :: status
    type(MPI_Message) :: message
    out = rank
    call MPI_Isend(out, 1000 + rank, MPI_INTEGER, right, 9, MPI_COMM_WORLD, request)
    call MPI_Mprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, message, status)
    call MPI_Get_count(status, MPI_INTEGER, n)
    probe = n == 1000 + left .and. status%MPI_SOURCE == left
    allocate(in(n))
    call MPI_Mrecv(in, n, MPI_INTEGER, message, MPI_STATUS_IGNORE)
    probe = probe .and. all(in == left)
    call MPI_Wait(request, MPI_STATUS_IGNORE)
  end function

  logical function derived_type()
    integer, parameter :: n = 300
    integer :: i
    integer, save :: a(n, n), b(n)
    type(MPI_Datatype) :: row
    do i = 1, n
      a(:, i) = rank * 1000 + i
    end do
    call MPI_Type_vector(n, 1, n, MPI_INTEGER, row)
    call MPI_Type_commit(row)
    call MPI_Sendrecv(a, 1, row, right, 4, b, n, MPI_INTEGER, left, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
    derived_type = .true.
    do i = 1, n
      derived_type = derived_type .and. b(i) == left * 1000 + i
    end do
    call MPI_Type_free(row)
  end function

  logical function cancel()
    integer, asynchronous, save :: value
    logical :: flag
    type(MPI_Request) :: request
    type(MPI_Status) :: status
    call MPI_Irecv(value, 1, MPI_INTEGER, left, 888, MPI_COMM_WORLD, request)
    call MPI_Cancel(request)
    call MPI_Wait(request, status)
    call MPI_Test_cancelled(status, flag)
    cancel = flag
  end function
end program
