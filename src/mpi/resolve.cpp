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
#include "mpi/module_abi.h"

extern "C" {
extern void* zh_slots[];
void zh_fill_slots();
}

namespace zh::mpi {
namespace {

const char* const kNames[] = {
#define ZH_F(name) #name,
#include "mpi/functions.table"
#undef ZH_F
};
constexpr unsigned kCount = sizeof(kNames) / sizeof(kNames[0]);

struct HostKind {
  const char* soname;
  const char* module;
};
constexpr HostKind kHosts[] = {
    {"libmpi.so.12", "libzerohop-mpich.so"},
    {"libmpich.so.12", "libzerohop-mpich.so"},
    {"libmpi.so.40", "libzerohop-ompi.so"},
    {"libmpi_abi.so.1", "libzerohop-abi.so"},
};

struct Found {
  const HostKind* kind = nullptr;
  char path[4096] = {};
};

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
  for (const HostKind& kind : kHosts) {
    if (std::strcmp(soname, kind.soname) != 0) continue;
    auto* found = static_cast<Found*>(out);
    found->kind = &kind;
    std::snprintf(found->path, sizeof(found->path), "%s", info->dlpi_name);
    return 1;
  }
  return 0;
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
    std::snprintf(name, sizeof(name), "PMPI_%s", kNames[i]);
    void* address = dlsym(host, name);
    if (address == nullptr) address = dlsym(host, name + 1);
    zh_slots[i] = address != nullptr ? address : reinterpret_cast<void*>(&missing_function);
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
  std::snprintf(path, sizeof(path), "%.*s%s", folder, self.dli_fname, found.kind->module);
  void* module = dlopen(path, RTLD_LOCAL | RTLD_NOW);
  if (module == nullptr) {
    std::snprintf(reason, reason_bytes, "%s", dlerror());
    return reason;
  }
  const auto fill = reinterpret_cast<ModuleFill>(dlsym(module, kModuleFillName));
  if (fill == nullptr) return "the module has no entry";
  heap::Heap* heap = heap::process_heap.started() ? &heap::process_heap : nullptr;
  const ModuleArgs args{table_hash(kNames, kCount), host, found.kind->soname, zh_slots, kCount, enabled, heap};
  return fill(&args);
}

void fill() {
  Found found;
  dl_iterate_phdr(&look_for_host, &found);
  if (found.kind == nullptr) {
    say("an MPI function was called but no MPI library that zerohop knows is loaded", "");
    std::abort();
  }
  void* host = dlopen(found.path, RTLD_NOLOAD | RTLD_NOW | RTLD_LOCAL);
  if (host == nullptr) host = dlopen(found.kind->soname, RTLD_NOLOAD | RTLD_NOW | RTLD_LOCAL);
  if (host == nullptr) {
    say("cannot reach the loaded MPI library ", found.path);
    std::abort();
  }
  const bool enabled = !says_no(std::getenv("ZEROHOP_ENABLE"));
  char reason[1024];
  const char* why = fill_from_module(found, host, enabled, reason, sizeof(reason));
  if (why != nullptr) {
    if (enabled) say("everything stays with the MPI library: ", why);
    fill_from_host(host);
  }
}

pthread_once_t once = PTHREAD_ONCE_INIT;

}  // namespace
}  // namespace zh::mpi

void zh_fill_slots() { pthread_once(&zh::mpi::once, &zh::mpi::fill); }
