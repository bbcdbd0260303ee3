// PMIx_Commit, with which an MPI library publishes what its ranks must know of each other: zerohop's own value goes
// with it. Called by the MPI library while it initialises; refuses to know what the module does.
#include <dlfcn.h>

#include "mpi/entry/commit.h"

namespace zh::mpi {

void (*before_commit)(void* pmix) = nullptr;

namespace {
constexpr int kPmixErrInit = -31;  // what a library says that was not initialised

/// The library in whose scope the caller would have found the function, were it not for this one.
void* library_of(void* caller) {
  Dl_info where;
  if (dladdr(caller, &where) == 0 || where.dli_fname == nullptr) return nullptr;
  return dlopen(where.dli_fname, RTLD_NOLOAD | RTLD_LAZY | RTLD_LOCAL);
}
}  // namespace
}  // namespace zh::mpi

extern "C" int PMIx_Commit();

extern "C" __attribute__((visibility("default"))) int PMIx_Commit() {
  using namespace zh::mpi;
  using Commit = int (*)();
  void* library = library_of(__builtin_return_address(0));
  auto real = library != nullptr ? reinterpret_cast<Commit>(dlsym(library, "PMIx_Commit")) : nullptr;
  if (real == nullptr || real == &PMIx_Commit) {  // the program itself calls
    library = RTLD_NEXT;
    real = reinterpret_cast<Commit>(dlsym(library, "PMIx_Commit"));
  }
  if (real == nullptr) return kPmixErrInit;
  if (before_commit != nullptr) before_commit(library);
  return real();
}
