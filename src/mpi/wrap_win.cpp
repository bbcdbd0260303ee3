// Constructors of windows. The host makes them and does all that is one-sided; zerohop only has to know that there are
// any, because barriers turn the host then.
#include <climits>

#include "mpi/wrap.h"

namespace zh::mpi::wrap {
namespace {

/// Units that large-count functions may have; hosts without these take an int.
template <typename Call>
int with_narrow_unit(MPI_Aint unit, MPI_Comm comm, Call&& call) {
  return unit > INT_MAX ? raise(comm, MPI_ERR_DISP) : call(static_cast<int>(unit));
}

}  // namespace

int Win_create(void* base, MPI_Aint size, int unit, MPI_Info info, MPI_Comm comm, MPI_Win* win) {
  shim.has_windows = true;
  return host.Win_create(base, size, unit, info, comm, win);
}

int Win_allocate(MPI_Aint size, int unit, MPI_Info info, MPI_Comm comm, void* base, MPI_Win* win) {
  shim.has_windows = true;
  return host.Win_allocate(size, unit, info, comm, base, win);
}

int Win_allocate_shared(MPI_Aint size, int unit, MPI_Info info, MPI_Comm comm, void* base, MPI_Win* win) {
  shim.has_windows = true;
  return host.Win_allocate_shared(size, unit, info, comm, base, win);
}

int Win_create_dynamic(MPI_Info info, MPI_Comm comm, MPI_Win* win) {
  shim.has_windows = true;
  return host.Win_create_dynamic(info, comm, win);
}

int Win_create_c(void* base, MPI_Aint size, MPI_Aint unit, MPI_Info info, MPI_Comm comm, MPI_Win* win) {
  shim.has_windows = true;
  ZH_LARGE_CALL(host.Win_create_c(base, size, unit, info, comm, win));
  return with_narrow_unit(unit, comm, [=](int narrow) { return Win_create(base, size, narrow, info, comm, win); });
}

int Win_allocate_c(MPI_Aint size, MPI_Aint unit, MPI_Info info, MPI_Comm comm, void* base, MPI_Win* win) {
  shim.has_windows = true;
  ZH_LARGE_CALL(host.Win_allocate_c(size, unit, info, comm, base, win));
  return with_narrow_unit(unit, comm, [=](int narrow) { return Win_allocate(size, narrow, info, comm, base, win); });
}

int Win_allocate_shared_c(MPI_Aint size, MPI_Aint unit, MPI_Info info, MPI_Comm comm, void* base, MPI_Win* win) {
  shim.has_windows = true;
  ZH_LARGE_CALL(host.Win_allocate_shared_c(size, unit, info, comm, base, win));
  return with_narrow_unit(unit, comm,
                          [=](int narrow) { return Win_allocate_shared(size, narrow, info, comm, base, win); });
}

}  // namespace zh::mpi::wrap
