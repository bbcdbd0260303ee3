// The one function that libzerohop.so calls: gives an address for every name in functions.table.
#include "mpi/module_abi.h"

#include <type_traits>

#include "mpi/wrap.h"

namespace zh::mpi {
namespace {

const char* const kNames[] = {
#define ZH_F(name) #name,
#include "mpi/functions.table"
#undef ZH_F
};

void* const kWrappers[] = {
#define ZH_F(name) reinterpret_cast<void*>(&wrap::name),
#include "mpi/functions.table"
#undef ZH_F
};
constexpr unsigned kCount = sizeof(kNames) / sizeof(kNames[0]);

}  // namespace
}  // namespace zh::mpi

extern "C" __attribute__((visibility("default"))) const char* zh_module_fill(const zh::mpi::ModuleArgs* args) {
  using namespace zh::mpi;
  if (args->n_slots != kCount || args->hash != table_hash(kNames, kCount)) {
    return "libzerohop.so and its module are of different versions";
  }
  if (const char* why = load_host(args->host); why != nullptr) return why;
  shim.enabled = args->enabled;
  for (unsigned i = 0; i < kCount; ++i) {
    void* theirs = args->enabled ? nullptr : host_symbol(args->host, kNames[i]);
    args->slots[i] = theirs != nullptr ? theirs : kWrappers[i];
  }
  return nullptr;
}
