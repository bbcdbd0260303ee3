// The first MPI call ends up here: finds the host MPI that is really loaded, loads the module made for its ABI, and has
// the slots of stubs.S filled. Called by zh_first_call only. Refuses to know any MPI type; runs before C++ set-up is
// sure.
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/atomic.h"
#include "base/environment.h"
#include "heap/heap.h"
#include "mpi/entry/commit.h"
#include "mpi/entry/function_names.h"
#include "mpi/entry/known_hosts.h"
#include "mpi/entry/module_abi.h"
#include "mpi/entry/profilers.h"

extern "C" {
extern void* zh_slots[];
void zh_fill_slots();
}

namespace zh::mpi {
namespace {

constexpr unsigned kCount = kFunctions;

void* profilers[kCount];

struct Found {
  const char* module = nullptr;  ///< null: nothing for this library
  const char* soname = nullptr;
  char path[4096] = {};
};

/// The module for what a library says of itself; null if it is none that is known.
const char* module_of(void* host) {
  // MPI_MAX_LIBRARY_VERSION_STRING is 8192 at most. May be called before MPI_Init (MPI standard 8.1.1).
  static char text[16384];
  int length = 0;
  const auto ask = reinterpret_cast<int (*)(char*, int*)>(dlsym(host, "MPI_Get_library_version"));
  if (ask == nullptr || ask(text, &length) != 0) return nullptr;
  return module_for(text, dlsym(host, kOpenMpiObject) != nullptr);
}

/// DT_SONAME of a loaded object, or its file name; the loader has relocated DT_STRTAB on all libcs we run on but some
/// keep an offset, so both are understood.
const char* soname_of(const dl_phdr_info* info) {
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    if (info->dlpi_phdr[i].p_type != PT_DYNAMIC) continue;
    const auto* dynamic = reinterpret_cast<const ElfW(Dyn)*>(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
    ElfW(Addr) strings = 0;
    ElfW(Xword) name = 0;
    bool named = false;
    for (; dynamic->d_tag != DT_NULL; ++dynamic) {
      if (dynamic->d_tag == DT_STRTAB) strings = dynamic->d_un.d_ptr;
      if (dynamic->d_tag == DT_SONAME) {
        name = dynamic->d_un.d_val;
        named = true;
      }
    }
    if (!named || strings == 0) return nullptr;
    if (strings < info->dlpi_addr) strings += info->dlpi_addr;
    return reinterpret_cast<const char*>(strings + name);
  }
  return nullptr;
}

int look_for_host(dl_phdr_info* info, size_t, void* out) {
  if (info->dlpi_name == nullptr || info->dlpi_name[0] == '\0') return 0;
  if (std::strstr(info->dlpi_name, "linux-vdso") != nullptr) return 0;
  const char* soname = soname_of(info);
  if (soname == nullptr) return 0;
  const HostKind* kind = host_called(soname);
  if (kind == nullptr) return 0;
  auto* found = static_cast<Found*>(out);
  found->module = kind->module;
  found->soname = kind->soname;
  std::snprintf(found->path, sizeof(found->path), "%s", info->dlpi_name);
  return 1;
}

/// The `index`-th loaded object.
struct Nth {
  unsigned index;
  ElfW(Addr) base;
  char path[4096];
};
int take_nth(dl_phdr_info* info, size_t, void* out) {
  auto* nth = static_cast<Nth*>(out);
  if (nth->index-- != 0) return 0;
  nth->base = info->dlpi_addr;
  std::snprintf(nth->path, sizeof(nth->path), "%s", info->dlpi_name != nullptr ? info->dlpi_name : "");
  return 1;
}

/// A loaded library, other than this one, that defines `function` itself; null if there is none.
void* find_definer(const char* function, Found* found) {
  Dl_info self;
  if (dladdr(reinterpret_cast<void*>(&find_definer), &self) == 0) return nullptr;
  for (unsigned i = 0;; ++i) {
    Nth nth{i, 0, {}};
    if (dl_iterate_phdr(&take_nth, &nth) == 0) return nullptr;
    if (nth.path[0] == '\0' || std::strstr(nth.path, "linux-vdso") != nullptr) continue;
    void* library = dlopen(nth.path, RTLD_NOLOAD | RTLD_LAZY | RTLD_LOCAL);
    if (library == nullptr) continue;
    Dl_info where;
    void* address = dlsym(library, function);
    if (address != nullptr && dladdr(address, &where) != 0 && where.dli_fbase != self.dli_fbase &&
        reinterpret_cast<ElfW(Addr)>(where.dli_fbase) == nth.base) {
      std::snprintf(found->path, sizeof(found->path), "%s", nth.path);
      return library;
    }
    dlclose(library);
  }
}

/// The MPI library that is loaded, and what it is; null if there is none.
void* find_host(Found* found) {
  dl_iterate_phdr(&look_for_host, found);
  void* host = nullptr;
  if (found->module != nullptr) {
    host = dlopen(found->path, RTLD_NOLOAD | RTLD_NOW | RTLD_LOCAL);
    if (host == nullptr) host = dlopen(found->soname, RTLD_NOLOAD | RTLD_NOW | RTLD_LOCAL);
    const bool is_open_mpi = host != nullptr && dlsym(host, kOpenMpiObject) != nullptr;
    if (!is_what_it_is_called(found->module, is_open_mpi)) found->module = nullptr;
  }
  if (host != nullptr) return host;
  host = find_definer("PMPI_Init", found);
  if (host == nullptr) host = find_definer("MPI_Init", found);
  if (host == nullptr) return nullptr;
  found->soname = found->path;
  found->module = module_of(host);
  return host;
}

void say(const char* what, const char* detail) { std::fprintf(stderr, "zerohop: %s%s\n", what, detail); }

/// What a function without any implementation leads to; the host does not have it either.
void missing_function() {
  say("an MPI function was called that neither the MPI library nor zerohop provides", "");
  std::abort();
}

/// Every function straight to the host.
void fill_from_host(void* host) {
  for (unsigned i = 0; i < kCount; ++i) {
    char name[80];
    std::snprintf(name, sizeof(name), "PMPI_%s", kFunctionNames[i]);
    void* address = dlsym(host, name);
    if (address == nullptr) address = dlsym(host, name + 1);
    set_slot(zh_slots, kCount, profilers, i, address != nullptr ? address : reinterpret_cast<void*>(&missing_function));
  }
}

/// Null on success, else why the module cannot be used.
const char* fill_from_module(const Found& found, void* host, bool enabled, char* reason, size_t reason_bytes) {
  Dl_info self;
  if (dladdr(reinterpret_cast<void*>(&fill_from_host), &self) == 0 || self.dli_fname == nullptr) {
    return "cannot find the folder of libzerohop.so";
  }
  char path[4096 + 64];
  const char* slash = std::strrchr(self.dli_fname, '/');
  const int folder = slash == nullptr ? 0 : static_cast<int>(slash - self.dli_fname + 1);
  std::snprintf(path, sizeof(path), "%.*s%s", folder, self.dli_fname, found.module);
  void* module = dlopen(path, RTLD_LOCAL | RTLD_NOW);
  if (module == nullptr) {
    std::snprintf(reason, reason_bytes, "%s", dlerror());
    return reason;
  }
  const auto fill = reinterpret_cast<ModuleFill>(dlsym(module, kModuleFillName));
  if (fill == nullptr) return "the module has no entry";
  heap::Heap* heap = heap::process_heap.started() ? &heap::process_heap : nullptr;
  const ModuleArgs args{table_hash(kFunctionNames, kCount),
                        host,
                        found.soname,
                        zh_slots,
                        kCount,
                        profilers,
                        enabled,
                        heap,
                        &before_commit};
  return fill(&args);
}

void fill() {
  Found found;
  void* host = find_host(&found);
  if (host == nullptr) {
    say("an MPI function was called but no MPI library is loaded", "");
    std::abort();
  }
  const bool enabled = !says_no(std::getenv("ZEROHOP_ENABLE"));
  char reason[4096 + 128];
  const char* why = nullptr;
  if (const char* doubtful = find_profilers(kFunctionNames, kCount, host, profilers); doubtful != nullptr) {
    std::snprintf(reason, sizeof(reason), "%s may call it past zerohop; preload it before libzerohop.so", doubtful);
    why = reason;
  } else if (found.module == nullptr) {
    std::snprintf(reason, sizeof(reason), "%s is none that zerohop knows", found.path);
    why = reason;
  } else {
    why = fill_from_module(found, host, enabled, reason, sizeof(reason));
  }
  if (why != nullptr) {
    if (enabled) say("everything stays with the MPI library: ", why);
    fill_from_host(host);
  }
}

pthread_once_t once = PTHREAD_ONCE_INIT;

}  // namespace
}  // namespace zh::mpi

void zh_fill_slots() { pthread_once(&zh::mpi::once, &zh::mpi::fill); }
