// What was measured of a machine beside the parameters of the models: all its distances, its caches, its ways of
// copying. Part of a parameter set (parameters.h), which carries it from `zerohop tune` to whoever reads a profile. It
// refuses to know how a figure was found. No equation depends on one; shared steps of a walk cost by `contention`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "model/costs.h"

namespace zh::model {

/// The messages of one pair of ranks.
struct MeasuredLevel {
  std::string level;                 ///< distance: "same-core" to "other-socket", or "other-node"
  std::vector<uint32_t> processors;  ///< of the two ranks; empty if nobody chose them
  std::string placement;             ///< by the time of a cache line: "near", "far", or "several" (machines)
  double line_us = 0;                ///< median time of a cache line, one way; 0: none goes from one to the other
  uint32_t launches = 0;             ///< that counted
  std::vector<std::string> noisy;    ///< shapes whose cost another run may find a quarter more or less: "4K8S"
  std::string stands_for;            ///< the level of the models that has these costs ("intra-cmp"); "": none has
  LevelCosts costs;                  ///< where it stands for none
  bool operator==(const MeasuredLevel&) const = default;
};

/// One cache, as one process of this machine may use it.
struct CacheSize {
  std::string name;        ///< "L1d", "L2", "last-level"
  uint64_t described = 0;  ///< bytes of one such cache by the topology; 0: unknown
  uint64_t measured = 0;   ///< bytes that a process reads at its cost; 0: not found
  bool at_least = false;   ///< `measured` is where the measuring ended
  bool noisy = false;
  bool operator==(const CacheSize&) const = default;
};

/// A size that no message has: the way never wins.
constexpr uint64_t kNeverWins = ~uint64_t{0};

/// Copies between two processes at one distance: from which size on one way takes less time than another, bytes;
/// kNeverWins; nothing where it was not measured.
struct CopyThresholds {
  std::string level;                    ///< as MeasuredLevel's
  std::optional<uint64_t> nontemporal;  ///< the sender's non-temporal stores, against ordinary ones
  std::optional<uint64_t> kernel_both;  ///< both ends copy through the kernel, against one alone
  std::optional<uint64_t> mapped_both;  ///< both ends copy out of mapped memory, against one alone
  bool operator==(const CopyThresholds&) const = default;
};

constexpr const char* kMappedWay = "mapped";
constexpr const char* kKernelWay = "kernel";  ///< process_vm_readv, through the page locks of the memory's owner

/// What it takes that several processes read one process's memory at once, each on a processor of its own.
struct Contention {
  std::string way;                              ///< one of the two
  uint64_t bytes = 0;                           ///< that each reads
  std::vector<std::pair<uint32_t, double>> us;  ///< by readers, from one on: the slowest one's time
  bool noisy = false;
  bool operator==(const Contention&) const = default;
};

struct MachineFacts {
  std::vector<MeasuredLevel> levels;
  std::vector<CacheSize> caches;
  std::vector<CopyThresholds> copies;
  std::vector<Contention> contention;
  bool operator==(const MachineFacts&) const = default;
};

}  // namespace zh::model
