#include "mpi/start/agreement.h"

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "mpi/shim.h"
#include "tune/profile.h"

namespace zh::mpi {

void say_once(int rank, const char* what, const char* why) {
  if (rank == 0) std::fprintf(stderr, "zerohop: %s: %s\n", what, why);
}

const char* agree_on_terms(HostBootstrap& world, const JobTerms& mine) {
  std::vector<JobTerms> all(static_cast<size_t>(world.size()));
  if (!world.allgather(&mine, sizeof mine, all.data()).ok()) return "the ranks cannot agree";
  shim.collectives = std::all_of(all.begin(), all.end(), [](const JobTerms& t) { return t.collectives; });
  shim.algorithms = algorithms_of(all[0].algorithms);
  shim.chunk_bytes = all[0].chunk_bytes;
  shim.counts_calls = all[0].statistics;
  if (std::any_of(all.begin(), all.end(), [](const JobTerms& t) { return t.devices; })) {
    return "the driver of a GPU is loaded, and messages in its memory are not served (ZEROHOP_DEVICES=0: there are "
           "none)";
  }
  const bool ready = std::all_of(all.begin(), all.end(), [](const JobTerms& t) { return t.ready; });
  return ready ? nullptr : "no memory for request handles";
}

void share_selection(HostBootstrap& world, const Options& options) {
  std::string text;
  if (world.rank() == 0) {
    const std::string folder = tune::cache_folder(options.get_text(Opt::kCache));
    const std::string path = coll::selection_path(folder, ZH_ABI_NAME);
    if (const Status s = shim.selection.load(path); s.code() == Code::kInvalid) say_once(0, "not obeyed", s.what());
    if (!shim.selection.entries().empty()) text = shim.selection.text();
  }
  auto bytes = static_cast<int>(text.size());
  host.Bcast(&bytes, sizeof bytes, MPI_BYTE, 0, world.comm());
  text.resize(static_cast<size_t>(bytes));
  host.Bcast(text.data(), bytes, MPI_BYTE, 0, world.comm());
  static_cast<void>(shim.selection.parse(text));
}

}  // namespace zh::mpi
