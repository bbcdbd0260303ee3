#include "heap/decide.h"

#include <dlfcn.h>
#include <sys/auxv.h>

#include <cstdlib>
#include <cstring>

#include "base/environment.h"

namespace zh::heap {
namespace {

/// Set by the launchers of MPI programs for each rank, and by `zerohop run`.
constexpr const char* kLaunchers[] = {"PMI_RANK",        "PMIX_RANK",          "OMPI_COMM_WORLD_RANK",
                                      "MPI_LOCALRANKID", "PALS_RANKID",        "SLURM_PROCID",
                                      "FLUX_TASK_RANK",  "JSM_NAMESPACE_RANK", kLaunchedMark};

/// Tools that watch every allocation.
constexpr const char* kWatchers[] = {"__asan_init", "__tsan_init", "__msan_init", "__hwasan_init", "__lsan_init"};

bool contains(const char* variable, const char* text) {
  const char* value = std::getenv(variable);
  return value != nullptr && std::strstr(value, text) != nullptr;
}

}  // namespace

Decision decide(bool own_malloc, bool launched) {
  const char* choice = std::getenv("ZEROHOP_HEAP");
  const char* enable = std::getenv("ZEROHOP_ENABLE");
  if (is_word(choice, "0")) return {false, false, "ZEROHOP_HEAP is 0"};
  if (says_no(enable)) return {false, false, "ZEROHOP_ENABLE is 0"};
  if (getauxval(AT_SECURE) != 0) return {false, false, "the program runs with more rights than its user"};
  const bool always = is_word(choice, "1");
  for (const char* variable : kLaunchers) launched = launched || std::getenv(variable) != nullptr;
  if (!launched && !always) return {false, false, "not started by a launcher of MPI programs"};
  if (own_malloc) return {false, false, "the program brings its own malloc"};
  if (contains("LD_PRELOAD", "vgpreload")) return {false, false, "the program runs under valgrind"};
  for (const char* name : kWatchers) {
    if (dlsym(RTLD_DEFAULT, name) != nullptr) return {false, false, "a sanitizer watches the program's memory"};
  }
  if (std::getenv("MALLOC_CHECK_") != nullptr || std::getenv("MALLOC_PERTURB_") != nullptr ||
      contains("GLIBC_TUNABLES", "glibc.malloc.check") || contains("GLIBC_TUNABLES", "glibc.malloc.perturb")) {
    return {false, false, "libc's malloc is asked to check itself (MALLOC_CHECK_, MALLOC_PERTURB_, GLIBC_TUNABLES)"};
  }
  return {true, always, always ? "ZEROHOP_HEAP is 1" : "started by a launcher of MPI programs"};
}

}  // namespace zh::heap
