// What all ranks of a job must hold alike, lest they do a collective in different ways, and how they come to it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/options.h"
#include "mpi/start/bootstrap.h"
#include "mpi/start/settings.h"
#include "node/node.h"

namespace zh::mpi {

/// One line on standard error, by rank 0 alone.
void say_once(int rank, const char* what, const char* why);

/// What holds if it does for all ranks, and what rank 0 says.
class Agreement {
 public:
  /// What this rank of the world has to say. A host that serves device memory has loaded its driver by then; one that
  /// does not fails with it, as without zerohop.
  Agreement(int rank, const Options& options);

  /// Each word becomes the least of all ranks' (JoinConfig::terms).
  [[nodiscard]] std::span<uint64_t> terms() { return terms_; }
  /// After that: sets what the shim does from now on. Collective if rank 0 has tables of algorithms. Null, or why
  /// everything stays with the host, on all ranks alike.
  const char* obey(HostBootstrap& world);
  /// The setting queue_lock: ranks that took different locks would work on the same queues at once.
  [[nodiscard]] bool coarse_lock() const;

 private:
  enum : size_t { kNoDevices, kCollectives, kChunkBytes, kSet, kTables, kNumbers };
  static constexpr size_t kTexts = 2;  // measured, by a model
  static constexpr size_t kWords = kNumbers + (sizeof(AlgorithmNumbers) + sizeof(uint64_t) - 1) / sizeof(uint64_t);

  static_assert(kWords <= node::JoinConfig::kMostTerms);

  void load_tables(const Options& options);

  std::array<uint64_t, kWords> terms_{};
  std::string tables_;  ///< rank 0: the texts behind one another
};

}  // namespace zh::mpi
