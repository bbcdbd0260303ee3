// ZEROHOP_* variables as the layers below want them. The table of variables itself is base/options.h.
#pragma once

#include <string>

#include "engine/rank.h"
#include "node/node.h"

namespace zh::mpi {

struct Settings {
  uint64_t rank_bytes = 64 << 20;
  uint32_t node_ranks = 0;
  engine::WaitPolicy wait = engine::WaitPolicy::kAuto;
  bool cma = true;
  int skew = -1;
  uint64_t single_copy_min = 0;
  std::string calibration_folder;
  std::string stats;
};

Settings read_settings();
void apply(const Settings& settings, node::Config* out);
void apply(const Settings& settings, engine::Config* out);

}  // namespace zh::mpi
