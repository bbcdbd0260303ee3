#include "mpi/start/agreement.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <string>
#include <string_view>

#include "mpi/shim.h"
#include "tune/profile.h"

namespace zh::mpi {

void say_once(int rank, const char* what, const char* why) {
  if (rank == 0) std::fprintf(stderr, "zerohop: %s: %s\n", what, why);
}

const char* agree_on_terms(HostBootstrap& world, const JobTerms& mine) {
  // What holds if it does for all, then what rank 0 says; the others say the greatest there.
  enum : size_t { kReady, kNoDevices, kCollectives, kChunkBytes, kSet, kNumbers };
  static_assert(sizeof mine.algorithms <= 2 * sizeof(uint64_t));
  std::array<uint64_t, kNumbers + 2> terms{};
  terms[kReady] = mine.ready ? 1 : 0;
  terms[kNoDevices] = mine.devices ? 0 : 1;
  terms[kCollectives] = mine.collectives ? 1 : 0;
  terms[kChunkBytes] = mine.chunk_bytes;
  terms[kSet] = (mine.chunk_set ? 1U : 0U) | (mine.statistics ? 2U : 0U);
  std::memcpy(&terms[kNumbers], mine.algorithms.data(), sizeof mine.algorithms);
  if (world.rank() != 0) std::fill(terms.begin() + kChunkBytes, terms.end(), ~uint64_t{0});
  if (!world.least(terms).ok()) return "the ranks cannot agree";
  AlgorithmNumbers numbers;
  std::memcpy(numbers.data(), &terms[kNumbers], sizeof numbers);
  shim.collectives = terms[kCollectives] != 0;
  shim.algorithms.named = algorithms_of(numbers);
  shim.algorithms.chunk_set = (terms[kSet] & 1U) != 0;
  shim.algorithms.chunk_bytes = terms[kChunkBytes];
  shim.counts_calls = (terms[kSet] & 2U) != 0;
  if (terms[kNoDevices] == 0) {
    return "the driver of a GPU is loaded, and messages in its memory are not served (ZEROHOP_CONFIG=devices=0: there "
           "are none)";
  }
  return terms[kReady] != 0 ? nullptr : "no memory for request handles";
}

void share_selections(HostBootstrap& world, const Options& options) {
  coll::Selection* const tables[] = {&shim.algorithms.measured, &shim.algorithms.modelled};
  std::string texts[std::size(tables)];
  if (world.rank() == 0) {
    const tune::KeptFolders folders = tune::kept_folders(options);
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
