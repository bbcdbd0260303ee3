// A random storm of messages between the ranks of a test world, checked against the rules of MPI: every message arrives
// once, whole, in order (standard 3.5), whatever mix of receives, probes and cancels meets it. Used by storm_test.cpp.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "engine/rank.h"
#include "node/node.h"
#include "support/fork_world.h"

namespace zh::test {

struct StormConfig {
  std::string name;
  World world = World::kThreads;
  int ranks = 3;
  uint32_t messages = 400;  ///< per rank
  uint64_t largest_bytes = 3 << 20;
  bool cma = true;
  uint32_t copiers = 8;
  uint32_t node_ranks = 0;  ///< > 0: several nodes of so many ranks
  std::string topology;     ///< of hwloc, in place of this machine's
  uint64_t single_copy_min = 0;
  uint64_t rank_bytes = 128 << 20;  ///< half of it in reserve
  uint64_t annex_bytes = 0;
  uint32_t polled_senders = 8;  ///< see p2p::EndpointConfig
  int skew = 1;                 ///< on with more ranks than CPUs as well
  float near_line_ns = node::kNearLineNs;
  float far_line_ns = node::kFarLineNs;
  float most_line_ns = node::kMostLineNs;
  bool streams = true;  ///< far pairs write past their caches; false: none does, as by the papers' thresholds
  engine::WaitPolicy wait = engine::WaitPolicy::kAuto;
  uint32_t away_percent = 3;             ///< steps in which a rank computes without calling in
  bool threads = false;                  ///< Rank::enable_threads()
  bool mapped = false;                   ///< most buffers lie in memory that peers can map
  bool forks = false;                    ///< ... and the ranks fork
  heap::SharedHeap* heap = nullptr;      ///< of make_rank()
  copy::RegionOwner* regions = nullptr;  ///< of make_rank()
  Log log;                               ///< of make_rank()
};

/// A rank with its node, as tests make it. Null (and a failed expectation) if that did not work.
/// Ranks that are threads use rank 0's mapping of the segment, so that ThreadSanitizer can relate their accesses; that
/// one mapping stays until the process ends.
struct EngineRank {
  EngineRank() = default;
  ~EngineRank();
  EngineRank(EngineRank&&) = default;
  EngineRank& operator=(EngineRank&&) = default;
  std::unique_ptr<node::Node> node;
  std::unique_ptr<engine::Rank> rank;
  std::byte* own_base = nullptr;  ///< the mapping to give back at the end
  bool shares_base = false;
};
/// A number of the rank's statistics, the first of that name; ~0 if there is none.
uint64_t stat(const engine::Rank& rank, const std::string& key);

[[nodiscard]] EngineRank make_rank(node::Bootstrap& world, const StormConfig& config);

/// Runs one rank of the storm. All ranks are given the same seed.
void run_storm(TestBootstrap& world, const StormConfig& config, uint64_t seed);

/// Seed of this run: ZH_TEST_SEED, else drawn; printed, so that a failure can be repeated.
[[nodiscard]] uint64_t storm_seed();

/// Keeps the CPU for about this long without calling the engine.
void compute(uint64_t ns);
/// This thread stays on the `nth` CPU that it may use.
void stay_on(uint32_t nth);

}  // namespace zh::test
