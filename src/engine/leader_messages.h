// The steps of leaders (coll/schedule/run.h) by zerohop's own schedules over messages between nodes: where the host has
// no communicator for them, and while the leaders settle whether it has. Called by the shim and the tests.
#pragma once

#include <array>
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

  Code meet() override;
  Code compare(uint64_t steps, uint64_t bytes) override;
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
  Code begin_bcast(void* data, uint64_t bytes, uint32_t root, void** handle) override;
  Code begin_reduce(const void* in, void* out, uint64_t count, const coll::Reduction& how, uint32_t root,
                    void** handle) override;
  Code begin_allreduce(const void* in, void* out, uint64_t count, const coll::Reduction& how, void** handle) override;
  bool test(void* handle, Code* code) override;

  /// Whether it is so on all leaders.
  [[nodiscard]] bool on_all(bool here);

 private:
  /// A step as a call by an algorithm.
  struct Way {
    coll::Problem problem;
    const char* algorithm;
    coll::Call call;
  };
  [[nodiscard]] coll::Problem problem_of(coll::Collective collective, uint64_t count, uint64_t element_bytes) const;
  [[nodiscard]] Way way_of_bcast(void* data, uint64_t bytes, uint32_t root) const;
  [[nodiscard]] Way way_of_reduce(const void* in, void* out, uint64_t count, const coll::Reduction& how,
                                  uint32_t root) const;
  [[nodiscard]] Way way_of_allreduce(const void* in, void* out, uint64_t count, const coll::Reduction& how) const;
  Code run(const coll::Problem& problem, const char* algorithm, const coll::Call& call);
  Code run(const Way& way) { return run(way.problem, way.algorithm, way.call); }
  Code start(const coll::Problem& problem, const char* algorithm, coll::Call call, std::unique_ptr<coll::Run>* out);
  Code begin(const Way& way, void** handle);

  Rank& rank_;
  std::shared_ptr<const coll::Layout> layout_;  ///< each leader on a node of its own
  uint32_t self_;
  SpanTransport transport_;
  uint64_t calls_ = 0;
  std::array<std::unique_ptr<coll::Run>, coll::kLeadersUnderWay> begun_;
};

}  // namespace zh::engine
