#include "mpi/start/pump.h"

#include "base/atomic.h"
#include "engine/active_collectives.h"
#include "mpi/p2p/wildcard.h"
#include "mpi/start/job.h"
#include "mpi/wrap.h"

namespace zh::mpi {

void pump_host() {
  job->pump.turn();
  advance_wildcards();
  if (shim.rank != nullptr) shim.rank->active_collectives()->advance();
  reap_abandoned(false);
}

namespace {
/// True at every 32nd call.
bool is_time_for_host() {
  static Atomic<uint32_t> calls{0};
  const uint32_t n = calls.load_relaxed() + 1;
  calls.store_relaxed(n);  // a lost increment between threads does no harm
  return n % 32 == 0;
}
}  // namespace

void turn_once() {
  if (shim.rank == nullptr) return;
  shim.rank->progress();
  if (is_time_for_host()) pump_host();
}

void turn_sometimes() {
  if (!is_time_for_host()) return;
  shim.rank->progress();
  pump_host();
}

}  // namespace zh::mpi
