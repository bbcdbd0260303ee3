// The steps of leaders (coll/schedule/run.h) by zerohop's own schedules over messages between nodes: where the host has
// no communicator for them, and while the leaders settle whether it has. Called by the shim and the tests.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "coll/schedule/problem.h"
#include "coll/schedule/run.h"
#include "engine/internode.h"
#include "engine/rank.h"

namespace zh::engine {

class LeaderMessages final : public coll::LeaderSteps {
 public:
  /// `world`: world ranks of the leaders, in the order of nodes; `self`: this one's place among them. No other messages
  /// have `context`. The rank has an internode.
  LeaderMessages(Rank& rank, uint64_t context, std::vector<int32_t> world, uint32_t self);

  Code barrier() override;
  Code bcast(void* data, uint64_t bytes, uint32_t root) override;
  Code reduce(const void* in, void* out, uint64_t count, const coll::Reduction& how, uint32_t root) override;
  Code allreduce(const void* in, void* out, uint64_t count, const coll::Reduction& how) override;
  Code allgather(void* all, std::span<const uint64_t> parts) override;
  Code gather(const void* own, uint64_t bytes, void* all, std::span<const uint64_t> parts, bool even,
              uint32_t root) override;
  Code scatter(const void* all, std::span<const uint64_t> parts, void* own, uint64_t bytes, bool even,
               uint32_t root) override;
  Code alltoall(const void* in, void* out, std::span<const uint64_t> parts) override;
  Code reduce_scatter(const void* in, void* out, std::span<const uint64_t> parts, const coll::Reduction& how) override;
  Code exscan(const void* in, void* out, uint64_t count, const coll::Reduction& how) override;

  /// Whether it is so on all leaders.
  [[nodiscard]] bool on_all(bool here);

 private:
  [[nodiscard]] coll::Problem problem_of(coll::Collective collective, uint64_t count, uint64_t element_bytes) const;
  /// A step as a call by an algorithm.
  Code run(const coll::Problem& problem, const char* algorithm, coll::Call call);

  Rank& rank_;
  std::shared_ptr<const coll::Layout> layout_;  ///< each leader on a node of its own
  uint32_t self_;
  SpanTransport transport_;
  uint64_t calls_ = 0;
};

}  // namespace zh::engine
