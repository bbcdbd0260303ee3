// See settings.h.
#include "mpi/settings.h"

#include <unistd.h>

#include "shm/arena.h"

namespace zh::mpi {

Options read_options() {
  Options options;
  options.read_environment(environ);
  return options;
}

void apply(const Options& options, node::Config* out) {
  out->rank_bytes = shm::Arena::part_bytes(options.get_number(Opt::kMemory));
  out->node_ranks = static_cast<uint32_t>(options.get_number(Opt::kNodeRanks));
  out->topology_file = options.get_text(Opt::kTopology);
  out->cma = options.get_bool(Opt::kCma);
  out->tracer = options.get_bool(Opt::kPtracer);
  out->folder = options.get_text(Opt::kFolder);
  if (options.is(Opt::kSegment, "memfd")) out->memory_kinds = node::Config::kMemfd;
  if (options.is(Opt::kSegment, "file")) out->memory_kinds = node::Config::kFile;
}

void apply(const Options& options, engine::Config* out) {
  if (options.is(Opt::kWait, "spin")) out->wait = engine::WaitPolicy::kSpin;
  if (options.is(Opt::kWait, "passive")) out->wait = engine::WaitPolicy::kPassive;
  out->cma = options.get_bool(Opt::kCma);
  if (!options.is(Opt::kSkew, "auto")) out->skew = options.is(Opt::kSkew, "1") ? 1 : 0;
  out->single_copy_min = options.get_number(Opt::kSingleCopy, 0);
  out->calibration_folder = options.get_text(Opt::kCache);
  out->calibrate = options.get_bool(Opt::kCalibrate);
}

}  // namespace zh::mpi
