! A Fortran COMMON block and a saved module array, both large, as old codes keep their fields.
module fields
  implicit none
  double precision, save :: grid(1000, 1000)
end module fields

subroutine zh_common_write(seed) bind(c)
  use iso_c_binding
  use fields
  integer(c_int), value :: seed
  double precision :: a(800000)
  common /state/ a
  integer :: i
  do i = 1, 800000
    a(i) = dble(seed) + dble(i)
  end do
  grid = dble(seed)
end subroutine zh_common_write

! The number of elements that do not hold what zh_common_write(seed) wrote.
integer(c_int) function zh_common_wrong(seed) bind(c)
  use iso_c_binding
  use fields
  integer(c_int), value :: seed
  double precision :: a(800000)
  common /state/ a
  integer :: i
  zh_common_wrong = count(grid /= dble(seed))
  do i = 1, 800000
    if (a(i) /= dble(seed) + dble(i)) zh_common_wrong = zh_common_wrong + 1
  end do
end function zh_common_wrong

! The sum of an allocated array, which Fortran's runtime takes from malloc.
integer(c_int) function zh_allocate_sum(n) bind(c)
  use iso_c_binding
  integer(c_int), value :: n
  integer, allocatable :: b(:)
  allocate (b(n))
  b = 1
  zh_allocate_sum = sum(b)
  deallocate (b)
end function zh_allocate_sum

! The place of the COMMON block.
type(c_ptr) function zh_common_place() bind(c)
  use iso_c_binding
  double precision, target :: a(800000)
  common /state/ a
  zh_common_place = c_loc(a(400000))
end function zh_common_place
