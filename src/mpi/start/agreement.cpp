#include "mpi/start/agreement.h"

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <string>
#include <string_view>
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
  shim.algorithms.named = algorithms_of(all[0].algorithms);
  shim.algorithms.chunk_set = all[0].chunk_set;
  shim.chunk_bytes = all[0].chunk_bytes;
  shim.counts_calls = all[0].statistics;
  if (std::any_of(all.begin(), all.end(), [](const JobTerms& t) { return t.devices; })) {
    return "the driver of a GPU is loaded, and messages in its memory are not served (ZEROHOP_DEVICES=0: there are "
           "none)";
  }
  const bool ready = std::all_of(all.begin(), all.end(), [](const JobTerms& t) { return t.ready; });
  return ready ? nullptr : "no memory for request handles";
}

void share_selections(HostBootstrap& world, const Options& options) {
  coll::Selection* const tables[] = {&shim.algorithms.measured, &shim.algorithms.modelled};
  std::string texts[std::size(tables)];
  if (world.rank() == 0) {
    const tune::KeptFolders folders = tune::kept_folders(options.get_text(Opt::kCache), options.get_text(Opt::kSite));
    const std::string paths[] = {coll::selection_path(folders, ZH_ABI_NAME),
                                 coll::model_selection_path(folders, ZH_ABI_NAME)};
    for (size_t i = 0; i < std::size(tables); ++i) {
      std::string why;
      if (tables[i]->load(paths[i], &why).code() == Code::kInvalid) say_once(0, "not obeyed", why.c_str());
      if (!tables[i]->entries().empty()) texts[i] = tables[i]->text("");
    }
  }
  // Two numbers, then the texts behind one another.
  int bytes[] = {static_cast<int>(texts[0].size()), static_cast<int>(texts[1].size())};
  host.Bcast(bytes, sizeof bytes, MPI_BYTE, 0, world.comm());
  std::string both = texts[0] + texts[1];
  both.resize(static_cast<size_t>(bytes[0]) + static_cast<size_t>(bytes[1]));
  host.Bcast(both.data(), bytes[0] + bytes[1], MPI_BYTE, 0, world.comm());
  const std::string_view all = both;
  static_cast<void>(tables[0]->parse(all.substr(0, static_cast<size_t>(bytes[0]))));
  static_cast<void>(tables[1]->parse(all.substr(static_cast<size_t>(bytes[0]))));
}

}  // namespace zh::mpi
