! Point-to-point through mpif.h: blocking, persistent with Startall and Waitall, probe, derived type, cancel, request lists.
! Prints ok NAME / FAIL NAME: why for rank 0 after all ranks agreed, and the closing line of the C tests.
program mpif_program
  implicit none
  include 'mpif.h'
  integer :: ierr, rank, nranks, left, right, cases, failures
  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, nranks, ierr)
  right = mod(rank + 1, nranks)
  left = mod(rank + nranks - 1, nranks)
  cases = 0
  failures = 0
  call report('fortran.sendrecv', sendrecv())
  call report('fortran.nonblocking', nonblocking())
  call report('fortran.persistent', persistent())
  call report('fortran.probe', probe())
  call report('fortran.matched_probe', matched_probe())
  call report('fortran.derived_type', derived_type())
  call report('fortran.waitany_waitsome', waitany_waitsome())
  call report('fortran.cancel', cancel())
  call report('fortran.request_free', request_free())
  call report('fortran.bottom_and_ignore', bottom_and_ignore())
  call report('fortran.proc_null', proc_null())
  call report('fortran.communicators', communicators())
  if (rank == 0) print '(I0,A,I0,A)', cases, ' cases, ', failures, ' failed'
  call MPI_Finalize(ierr)
  if (failures > 0) stop 1
contains

  subroutine report(name, good)
    character(*), intent(in) :: name
    logical, intent(in) :: good
    logical :: all_good
    call MPI_Allreduce(good, all_good, 1, MPI_LOGICAL, MPI_LAND, MPI_COMM_WORLD, ierr)
    cases = cases + 1
    if (.not. all_good) failures = failures + 1
    if (rank == 0) then
      if (all_good) then
        print '(2A)', 'ok ', name
      else
        print '(3A)', 'FAIL ', name, ': wrong on some rank'
      end if
    end if
    if (.not. good) print '(A,I0,2A)', 'rank ', rank, ' is wrong in ', name
  end subroutine

  logical function sendrecv()
    integer :: i, n, status(MPI_STATUS_SIZE), got
    real(8), allocatable :: out(:), in(:)
    sendrecv = .true.
    do i = 0, 6
      n = 7 * 10**min(i, 5)
      allocate(out(n), in(n))
      out = rank + 0.5d0 * i
      in = -1
      call MPI_Sendrecv(out, n, MPI_DOUBLE_PRECISION, right, i, in, n, MPI_DOUBLE_PRECISION, left, i, &
                        MPI_COMM_WORLD, status, ierr)
      call MPI_Get_count(status, MPI_DOUBLE_PRECISION, got, ierr)
      sendrecv = sendrecv .and. all(in == left + 0.5d0 * i) .and. got == n
      sendrecv = sendrecv .and. status(MPI_SOURCE) == left .and. status(MPI_TAG) == i
      deallocate(out, in)
    end do
  end function

  logical function nonblocking()
    integer, parameter :: n = 200
    integer :: i, requests(2 * n), statuses(MPI_STATUS_SIZE, 2 * n), in(n), out(n)
    in = -1
    do i = 1, n
      out(i) = rank * 1000 + i
      call MPI_Irecv(in(i), 1, MPI_INTEGER, left, i, MPI_COMM_WORLD, requests(i), ierr)
    end do
    do i = n, 1, -1
      call MPI_Isend(out(i), 1, MPI_INTEGER, right, i, MPI_COMM_WORLD, requests(n + i), ierr)
    end do
    call MPI_Waitall(2 * n, requests, statuses, ierr)
    nonblocking = all(requests == MPI_REQUEST_NULL)
    do i = 1, n
      nonblocking = nonblocking .and. in(i) == left * 1000 + i .and. statuses(MPI_TAG, i) == i
    end do
  end function

  logical function persistent()
    integer, parameter :: n = 30000
    integer :: requests(4), saved(4), round, statuses(MPI_STATUS_SIZE, 4), k
    integer, save :: small_in, small_out, large_in(n), large_out(n)
    logical :: flag
    persistent = .true.
    call MPI_Recv_init(small_in, 1, MPI_INTEGER, left, 1, MPI_COMM_WORLD, requests(1), ierr)
    call MPI_Recv_init(large_in, n, MPI_INTEGER, left, 2, MPI_COMM_WORLD, requests(2), ierr)
    call MPI_Send_init(small_out, 1, MPI_INTEGER, right, 1, MPI_COMM_WORLD, requests(3), ierr)
    call MPI_Ssend_init(large_out, n, MPI_INTEGER, right, 2, MPI_COMM_WORLD, requests(4), ierr)
    saved = requests
    do round = 1, 6
      small_in = -1
      large_in = -1
      small_out = rank + round
      large_out = rank * round
      if (mod(round, 2) == 0) then
        call MPI_Startall(4, requests, ierr)
      else
        do k = 1, 4
          call MPI_Start(requests(k), ierr)
        end do
      end if
      if (mod(round, 3) == 0) then
        flag = .false.
        do while (.not. flag)
          call MPI_Testall(4, requests, flag, statuses, ierr)
        end do
      else if (mod(round, 3) == 1) then
        call MPI_Waitall(4, requests, MPI_STATUSES_IGNORE, ierr)
      else
        do k = 1, 4
          call MPI_Wait(requests(k), MPI_STATUS_IGNORE, ierr)
        end do
      end if
      persistent = persistent .and. all(requests == saved)
      persistent = persistent .and. small_in == left + round .and. all(large_in == left * round)
    end do
    do k = 1, 4
      call MPI_Request_free(requests(k), ierr)
    end do
    persistent = persistent .and. all(requests == MPI_REQUEST_NULL)
  end function

  logical function probe()
    integer :: request, status(MPI_STATUS_SIZE), n
    integer, allocatable :: in(:)
    integer, save :: out(5000)
    logical :: flag
    out = rank
    call MPI_Isend(out, 1000 + rank, MPI_INTEGER, right, 9, MPI_COMM_WORLD, request, ierr)
    call MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, status, ierr)
    call MPI_Get_count(status, MPI_INTEGER, n, ierr)
    probe = n == 1000 + left .and. status(MPI_SOURCE) == left .and. status(MPI_TAG) == 9
    call MPI_Iprobe(left, 9, MPI_COMM_WORLD, flag, MPI_STATUS_IGNORE, ierr)
    probe = probe .and. flag
    allocate(in(n))
    call MPI_Recv(in, n, MPI_INTEGER, left, 9, MPI_COMM_WORLD, status, ierr)
    probe = probe .and. all(in == left)
    call MPI_Wait(request, MPI_STATUS_IGNORE, ierr)
  end function

  logical function matched_probe()
    integer :: request, receive, message, kind
    integer, save :: out(40000), in(40000)
    logical :: flag
    matched_probe = .true.
    do kind = 1, 2
      out = rank + kind
      in = -1
      call MPI_Isend(out, 40000, MPI_INTEGER, right, 3, MPI_COMM_WORLD, request, ierr)
      if (kind == 1) then
        call MPI_Mprobe(left, 3, MPI_COMM_WORLD, message, MPI_STATUS_IGNORE, ierr)
        call MPI_Mrecv(in, 40000, MPI_INTEGER, message, MPI_STATUS_IGNORE, ierr)
      else
        flag = .false.
        do while (.not. flag)
          call MPI_Improbe(MPI_ANY_SOURCE, 3, MPI_COMM_WORLD, flag, message, MPI_STATUS_IGNORE, ierr)
        end do
        call MPI_Imrecv(in, 40000, MPI_INTEGER, message, receive, ierr)
        call MPI_Wait(receive, MPI_STATUS_IGNORE, ierr)
      end if
      matched_probe = matched_probe .and. message == MPI_MESSAGE_NULL .and. all(in == left + kind)
      call MPI_Wait(request, MPI_STATUS_IGNORE, ierr)
    end do
  end function

  logical function derived_type()
    ! A row of a column-major matrix, to a column.
    integer, parameter :: n = 300
    integer :: row, i
    integer, save :: a(n, n), b(n, n)
    do i = 1, n
      a(:, i) = rank * 1000 + i
    end do
    b = -1
    call MPI_Type_vector(n, 1, n, MPI_INTEGER, row, ierr)
    call MPI_Type_commit(row, ierr)
    call MPI_Sendrecv(a(5, 1), 1, row, right, 4, b(1, 7), n, MPI_INTEGER, left, 4, MPI_COMM_WORLD, &
                      MPI_STATUS_IGNORE, ierr)
    derived_type = .true.
    do i = 1, n
      derived_type = derived_type .and. b(i, 7) == left * 1000 + i
    end do
    call MPI_Sendrecv(b(1, 7), n, MPI_INTEGER, right, 5, b(2, 1), 1, row, left, 5, MPI_COMM_WORLD, &
                      MPI_STATUS_IGNORE, ierr)
    derived_type = derived_type .and. all(b(1, 8:) == -1)
    call MPI_Type_free(row, ierr)
  end function

  logical function waitany_waitsome()
    integer, parameter :: n = 12
    integer :: i, requests(n), in(n), out(n), index, done, outcount, indices(n), statuses(MPI_STATUS_SIZE, n)
    logical :: seen(n), flag
    seen = .false.
    waitany_waitsome = .true.
    do i = 1, n
      call MPI_Irecv(in(i), 1, MPI_INTEGER, left, 100 + i, MPI_COMM_WORLD, requests(i), ierr)
    end do
    do i = n, 1, -1
      out(i) = rank + i
      call MPI_Send(out(i), 1, MPI_INTEGER, right, 100 + i, MPI_COMM_WORLD, ierr)
    end do
    call MPI_Waitany(n, requests, index, statuses(:, 1), ierr)
    waitany_waitsome = index >= 1 .and. index <= n .and. statuses(MPI_TAG, 1) == 100 + index
    seen(index) = .true.
    flag = .false.
    do while (.not. flag)
      call MPI_Testany(n, requests, index, flag, MPI_STATUS_IGNORE, ierr)
    end do
    seen(index) = .true.
    done = 2
    do while (done < n)
      call MPI_Waitsome(n, requests, outcount, indices, statuses, ierr)
      do i = 1, outcount
        waitany_waitsome = waitany_waitsome .and. .not. seen(indices(i)) .and. statuses(MPI_TAG, i) == 100 + indices(i)
        seen(indices(i)) = .true.
      end do
      done = done + outcount
    end do
    call MPI_Waitany(n, requests, index, MPI_STATUS_IGNORE, ierr)
    waitany_waitsome = waitany_waitsome .and. index == MPI_UNDEFINED .and. all(seen)
    do i = 1, n
      waitany_waitsome = waitany_waitsome .and. in(i) == left + i
    end do
  end function

  logical function cancel()
    integer :: request, value, status(MPI_STATUS_SIZE)
    logical :: flag
    call MPI_Irecv(value, 1, MPI_INTEGER, left, 888, MPI_COMM_WORLD, request, ierr)
    call MPI_Cancel(request, ierr)
    call MPI_Wait(request, status, ierr)
    call MPI_Test_cancelled(status, flag, ierr)
    cancel = flag .and. request == MPI_REQUEST_NULL
  end function

  logical function request_free()
    integer :: request, in
    integer, save :: out
    out = rank + 3
    call MPI_Isend(out, 1, MPI_INTEGER, right, 6, MPI_COMM_WORLD, request, ierr)
    call MPI_Request_free(request, ierr)
    call MPI_Recv(in, 1, MPI_INTEGER, left, 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierr)
    request_free = in == left + 3 .and. request == MPI_REQUEST_NULL
    call MPI_Barrier(MPI_COMM_WORLD, ierr)
  end function

  logical function bottom_and_ignore()
    integer, save :: out(2), in(2)
    integer :: from, to, lengths(1), types(1)
    integer(MPI_ADDRESS_KIND) :: displacements(1)
    out = [rank, 77]
    in = -1
    lengths = 2
    types = MPI_INTEGER
    call MPI_Get_address(out, displacements(1), ierr)
    call MPI_Type_create_struct(1, lengths, displacements, types, from, ierr)
    call MPI_Get_address(in, displacements(1), ierr)
    call MPI_Type_create_struct(1, lengths, displacements, types, to, ierr)
    call MPI_Type_commit(from, ierr)
    call MPI_Type_commit(to, ierr)
    call MPI_Sendrecv(MPI_BOTTOM, 1, from, right, 8, MPI_BOTTOM, 1, to, left, 8, MPI_COMM_WORLD, &
                      MPI_STATUS_IGNORE, ierr)
    call MPI_Type_free(from, ierr)
    call MPI_Type_free(to, ierr)
    bottom_and_ignore = in(1) == left .and. in(2) == 77
  end function

  logical function proc_null()
    integer :: value, status(MPI_STATUS_SIZE)
    value = 5
    call MPI_Send(value, 1, MPI_INTEGER, MPI_PROC_NULL, 1, MPI_COMM_WORLD, ierr)
    call MPI_Recv(value, 1, MPI_INTEGER, MPI_PROC_NULL, 1, MPI_COMM_WORLD, status, ierr)
    proc_null = value == 5 .and. status(MPI_SOURCE) == MPI_PROC_NULL .and. status(MPI_TAG) == MPI_ANY_TAG
  end function

  logical function communicators()
    integer :: half, copy, me, members, in
    call MPI_Comm_split(MPI_COMM_WORLD, mod(rank, 2), -rank, half, ierr)
    call MPI_Comm_dup(half, copy, ierr)
    call MPI_Comm_rank(copy, me, ierr)
    call MPI_Comm_size(copy, members, ierr)
    call MPI_Sendrecv(me, 1, MPI_INTEGER, mod(me + 1, members), 1, in, 1, MPI_INTEGER, &
                      mod(me + members - 1, members), 1, copy, MPI_STATUS_IGNORE, ierr)
    communicators = in == mod(me + members - 1, members)
    call MPI_Comm_free(copy, ierr)
    call MPI_Comm_free(half, ierr)
  end function
end program
