// The one function that libzerohop.so calls: gives an address for every name in functions.table.
#include "mpi/entry/module_abi.h"

#include "heap/shared_heap.h"
#include "mpi/handles/reduction.h"
#include "mpi/start/init.h"
#include "mpi/start/launcher.h"
#include "mpi/start/settings.h"
#include "mpi/wrap.h"
#include "os/clock.h"
#include "p2p/counters.h"
#include "p2p/timeline.h"

namespace zh::mpi {
namespace {

/// What a function of blocking.table leads to.
template <auto kMember>
struct Pass;
template <typename Result, typename... Arguments, Blocking<Result (*)(Arguments...)> Host::*kMember>
struct Pass<kMember> {
  static Result call(Arguments... arguments) {
    return host.*kMember ? (host.*kMember)(arguments...) : MPI_ERR_UNSUPPORTED_OPERATION;
  }
};

void* const kWrappers[] = {
#define ZH_F(name) reinterpret_cast<void*>(&wrap::name),
#define ZH_B(name) reinterpret_cast<void*>(&Pass<&Host::name>::call),
#include "mpi/entry/functions.table"
};
constexpr unsigned kCount = kFunctions;

/// Where nobody asks for times: calls that were begun while somebody did.
p2p::TimedCount unasked[kFunctions + 1];
p2p::TimedCount* function_times = unasked;
static_assert(kFunctions < p2p::AccountShm::kFunctions);
bool has_timeline = false;

/// Passes the result through, so that its caller need not keep it.
template <typename Result>
[[gnu::cold, gnu::noinline]] Result tell_call(uint64_t begin_ticks, uint16_t function, Result result) {
  if (shim.rank != nullptr) shim.rank->tell({.begin_ticks = begin_ticks, .function = function});
  return result;
}

/// Times kFunction, which has that number. The budget of a call is in tests/mpi/budgets.json.
template <auto kFunction, uint16_t kNumber>
struct Timed;
template <typename Result, typename... Arguments, Result (*kFunction)(Arguments...), uint16_t kNumber>
struct Timed<kFunction, kNumber> {
  static Result call(Arguments... arguments) {
    uint64_t begin = os::ticks();
    asm("" : "+r"(begin));  // in one register: compilers keep its halves in two, and join them later
    const Result result = kFunction(arguments...);
    function_times[kNumber].add(os::ticks() - begin);
    if (has_timeline) [[unlikely]]
      return tell_call(begin, kNumber, result);
    return result;
  }
};

void* const kTimed[] = {
#define ZH_F(name) reinterpret_cast<void*>(&Timed<&wrap::name, function_number(#name)>::call),
#define ZH_B(name) reinterpret_cast<void*>(&Timed<&Pass<&Host::name>::call, function_number(#name)>::call),
#include "mpi/entry/functions.table"
};

ModuleArgs given{};

/// `all`: every function is ours; else only those that the host lacks.
void fill_slots(const ModuleArgs& args, bool all, void* const* wrappers = kWrappers) {
  for (unsigned i = 0; i < kCount; ++i) {
    void* theirs = all ? nullptr : host_symbol(args.host, kFunctionNames[i]);
    set_slot(args.slots, kCount, args.profilers, i, theirs != nullptr ? theirs : wrappers[i]);
  }
}

}  // namespace

void time_functions(p2p::AccountShm* account) {
  function_times = account != nullptr ? account->functions : unasked;
  has_timeline = account != nullptr && account->timeline_at() != kNoOffset;
  fill_slots(given, true, account != nullptr ? kTimed : kWrappers);
}

void leave_to_host() {
  shim.enabled = false;
  fill_slots(given, false);
}

}  // namespace zh::mpi

extern "C" __attribute__((visibility("default"))) const char* zh_module_fill(const zh::mpi::ModuleArgs* args) {
  using namespace zh::mpi;
  if (args->n_slots != kCount || args->hash != table_hash(kFunctionNames, kCount)) {
    return "libzerohop.so and its module are of different versions";
  }
  if (const char* why = load_host(args->host); why != nullptr) return why;
  load_predefined(args->host);
  // The library that loads this module knows the environment only, and no file of options.
  shim.enabled = args->enabled && read_options().get_bool(zh::Opt::kEnable);
  shim.heap = args->heap;
  if (!shim.enabled && shim.heap != nullptr) shim.heap->decline("ZEROHOP_ENABLE is 0");
  launcher.set_commit_hook(args->before_commit);
  given = *args;
  fill_slots(given, shim.enabled);
  return nullptr;
}
