// See settings.h.
#include "mpi/settings.h"

#include <cstdlib>
#include <cstring>

namespace zh::mpi {
namespace {

const char* variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0' ? value : nullptr;
}

}  // namespace

Settings read_settings() {
  Settings s;
  if (const char* v = variable("ZEROHOP_NODE_RANKS")) s.node_ranks = static_cast<uint32_t>(std::strtoul(v, nullptr, 10));
  if (const char* v = variable("ZEROHOP_CMA")) s.cma = std::strcmp(v, "0") != 0;
  if (const char* v = variable("ZEROHOP_STATS")) s.stats = v;
  if (const char* v = variable("ZEROHOP_WAIT")) {
    if (std::strcmp(v, "spin") == 0) s.wait = engine::WaitPolicy::kSpin;
    if (std::strcmp(v, "passive") == 0) s.wait = engine::WaitPolicy::kPassive;
  }
  return s;
}

void apply(const Settings& settings, node::Config* out) {
  out->rank_bytes = settings.rank_bytes;
  out->node_ranks = settings.node_ranks;
}

void apply(const Settings& settings, engine::Config* out) {
  out->wait = settings.wait;
  out->cma = settings.cma;
  out->skew = settings.skew;
  out->single_copy_min = settings.single_copy_min;
  out->calibration_folder = settings.calibration_folder;
}

}  // namespace zh::mpi
