// Ranks with an engine each, as tests make them, and messages between them. Used by the tests of the engine, of teams
// and by the fuzzers.
#pragma once

#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "coll/types.h"
#include "engine/rank.h"
#include "engine/run_transport.h"
#include "node/node.h"
#include "support/fake_module.h"
#include "support/fork_world.h"

namespace zh::test {

using engine::Rank;
using engine::RecvArgs;
using engine::Request;
using engine::Result;
using engine::SendArgs;

struct StormConfig {
  std::string name = {};
  World world = World::kThreads;
  int ranks = 3;
  uint32_t messages = kSanitized ? 80 : 400;  ///< per rank
  uint64_t largest_bytes = 3 << 20;
  bool cma = true;
  uint32_t copiers = 8;
  uint32_t node_ranks = 0;    ///< > 0: several nodes of so many ranks
  std::string topology = {};  ///< of hwloc, in place of this machine's
  uint64_t single_copy_min = 0;
  uint64_t rank_bytes = 128 << 20;  ///< half of it in reserve
  uint64_t annex_bytes = 0;
  uint32_t polled_senders = 8;  ///< see p2p::EndpointConfig
  int skew = 1;                 ///< on with more ranks than CPUs as well
  p2p::Ablations ablations = {};
  node::LineBounds lines = node::kVirtualLines;
  bool streams = true;  ///< far pairs write past their caches; false: none does, as by the papers' thresholds
  engine::WaitPolicy wait = engine::WaitPolicy::kAuto;
  uint32_t away_percent = 3;             ///< steps in which a rank computes without calling in
  bool threads = false;                  ///< Rank::enable_threads()
  bool mapped = false;                   ///< most buffers lie in memory that peers can map
  bool forks = false;                    ///< ... and the ranks fork
  heap::SharedHeap* heap = nullptr;      ///< of make_rank()
  copy::RegionOwner* regions = nullptr;  ///< of make_rank()
  Log log = {};                          ///< of make_rank()
  bool timeline = false;                 ///< likewise
  node::ModuleUse module_use = node::ModuleUse::kWhereRefused;
  FakeModules* modules = nullptr;  ///< in place of the kernel's
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

/// `n` ranks with an engine each, which leave together.
using EngineBody = std::function<void(TestBootstrap& world, EngineRank& r, uint32_t self)>;
void run_engine(int n, const StormConfig& config, const EngineBody& body);
[[nodiscard]] StormConfig config_in(World world, bool cma = true);

/// A message of the one context of tests that need no more, and its receive.
[[nodiscard]] engine::SendArgs message_to(uint32_t dest, uint32_t self, int32_t tag, const void* data, uint64_t bytes,
                                          p2p::SendMode mode = p2p::SendMode::kStandard);
[[nodiscard]] engine::RecvArgs message_from(int32_t source, int32_t tag, void* data, uint64_t bytes);
/// The same between two ranks.
[[nodiscard]] inline engine::SendArgs to_other(uint32_t dest, int32_t tag, const void* data, uint64_t bytes,
                                               p2p::SendMode mode = p2p::SendMode::kStandard) {
  return message_to(dest, 1 - dest, tag, data, bytes, mode);
}
/// Waits until the request has ended, and gives it back.
engine::Result finish(engine::Rank& rank, engine::Request* request);
void finish(engine::Rank& rank, std::span<engine::Request* const> requests);

/// out = a op b, of words that need not be aligned.
template <typename Op>
void each_word(const void* a, const void* b, void* out, size_t n, Op&& op) {
  for (size_t i = 0; i < n; ++i) {
    uint64_t x = 0;
    uint64_t y = 0;
    std::memcpy(&x, static_cast<const std::byte*>(a) + i * 8, 8);
    std::memcpy(&y, static_cast<const std::byte*>(b) + i * 8, 8);
    x = op(x, y);
    std::memcpy(static_cast<std::byte*>(out) + i * 8, &x, 8);
  }
}
inline void sum_kernel(const void* a, const void* b, void* out, size_t n) { each_word(a, b, out, n, std::plus<>()); }
inline const coll::Reduction kSums{8, sum_kernel, nullptr, nullptr, true};

/// The ranks of a communicator of all.
[[nodiscard]] inline engine::RankList all_ranks(uint32_t n) {
  const auto ranks = std::make_shared<std::vector<int32_t>>(n);
  std::iota(ranks->begin(), ranks->end(), 0);
  return {*ranks, ranks};
}

/// Seed of this run: ZH_TEST_SEED, else drawn; printed, so that a failure can be repeated.
[[nodiscard]] uint64_t storm_seed();

/// Keeps the CPU for about this long without calling the engine.
void compute(uint64_t ns);
/// This thread stays on the `nth` CPU that it may use.
void stay_on(uint32_t nth);

}  // namespace zh::test
