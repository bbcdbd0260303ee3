#include "mpi/start/agreement.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string_view>

#include "coll/algorithms/choose.h"
#include "mpi/shim.h"
#include "os/devices.h"
#include "tune/profile.h"

namespace zh::mpi {
namespace {

constexpr uint64_t kChunkIsSet = 1;
constexpr uint64_t kCountsCalls = 2;
constexpr uint64_t kCoarseLock = 4;
constexpr uint64_t kTimesCalls = 8;
constexpr uint64_t kLow = 0xffffffff;

}  // namespace

void say_once(int rank, const char* what, const char* why) {
  if (rank == 0) std::fprintf(stderr, "zerohop: %s: %s\n", what, why);
}

Agreement::Agreement(int rank, const Options& options) {
  const AlgorithmNumbers numbers =
      read_algorithms(options, [&](const std::string& why) { say_once(rank, "not obeyed", why.c_str()); });
  // Rank 0 says all but the first two; the others say the greatest there.
  if (rank == 0) {
    terms_[kChunkBytes] = options.get_number(Opt::kChunk);
    terms_[kSet] = (options.source(Opt::kChunk) != Source::kDefault ? kChunkIsSet : 0) |
                   (options.get_text(Opt::kStats).empty() ? 0 : kCountsCalls) |
                   (options.get_bool(Opt::kStatsTime) || !options.get_text(Opt::kTrace).empty() ? kTimesCalls : 0) |
                   (options.is(Opt::kQueueLock, "coarse") ? kCoarseLock : 0);
    std::memcpy(&terms_[kNumbers], numbers.data(), sizeof numbers);
    if (options.get_bool(Opt::kCollectives)) load_tables(options);
  } else {
    terms_.fill(~uint64_t{0});
  }
  const bool devices = options.is(Opt::kDevices, "auto") && !os::loaded_device_driver().empty();
  terms_[kNoDevices] = devices ? 0 : 1;
  terms_[kCollectives] = options.get_bool(Opt::kCollectives) ? 1 : 0;
}

void Agreement::load_tables(const Options& options) {
  const tune::KeptFolders folders = tune::kept_folders(options);
  const std::string paths[kTexts] = {coll::selection_path(folders, ZH_ABI_NAME),
                                     coll::model_selection_path(folders, ZH_ABI_NAME)};
  for (size_t i = 0; i < kTexts; ++i) {
    coll::Selection table;
    std::string why;
    if (table.load(paths[i], &why).code() == Code::kInvalid) say_once(0, "not obeyed", why.c_str());
    const std::string text = table.entries().empty() ? "" : table.text("");
    terms_[kTables] |= text.size() << 32 * i;
    tables_ += text;
  }
}

bool Agreement::coarse_lock() const { return (terms_[kSet] & kCoarseLock) != 0; }

const char* Agreement::obey(HostBootstrap& world) {
  AlgorithmNumbers numbers;
  std::memcpy(numbers.data(), &terms_[kNumbers], sizeof numbers);
  shim.collectives = terms_[kCollectives] != 0;
  shim.algorithms.named = algorithms_of(numbers);
  for (size_t i = 0; i < coll::kCollectives; ++i) {
    const auto collective = static_cast<coll::Collective>(i);
    shim.no_team[i] = !coll::no_algorithm_named(collective, shim.algorithms) &&
                      coll::named_order(collective, shim.algorithms) == coll::StagingOrder::kFree;
  }
  shim.algorithms.chunk_set = (terms_[kSet] & kChunkIsSet) != 0;
  shim.algorithms.chunk_bytes = terms_[kChunkBytes];
  shim.counts_calls = (terms_[kSet] & kCountsCalls) != 0;
  shim.times_calls = shim.counts_calls && (terms_[kSet] & kTimesCalls) != 0;
  if (terms_[kNoDevices] == 0) {
    return "the driver of a GPU is loaded, and messages in its memory are not served (ZEROHOP_CONFIG=devices=0: there "
           "are none)";
  }
  const size_t measured = terms_[kTables] & kLow;
  tables_.resize(measured + (terms_[kTables] >> 32));
  if (!shim.collectives || tables_.empty()) return nullptr;
  host.Bcast(tables_.data(), static_cast<int>(tables_.size()), MPI_BYTE, 0, world.comm());
  const std::string_view all = tables_;
  static_cast<void>(shim.algorithms.measured.parse(all.substr(0, measured)));
  static_cast<void>(shim.algorithms.modelled.parse(all.substr(measured)));
  return nullptr;
}

}  // namespace zh::mpi
