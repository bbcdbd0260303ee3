// RunTransport: the messages of schedules (coll/schedule/run.h) between ranks of one node, as point-to-point of the
// engine. Called by coll::Run on behalf of the shim and the tests. It refuses to know collectives.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "coll/schedule/run.h"
#include "engine/rank.h"

namespace zh::engine {

/// A list by rank of a communicator, which communicators may share.
struct RankList {
  std::span<const int32_t> ranks;
  std::shared_ptr<const void> owner;  ///< of their memory

  [[nodiscard]] int32_t operator[](size_t rank) const { return ranks[rank]; }
  /// All ranks, where all are of this node.
  [[nodiscard]] std::vector<uint32_t> indices() const { return {ranks.begin(), ranks.end()}; }
};

class RunTransport : public coll::Transport {
 public:
  /// `members`: node-local indices by rank of the communicator, < 0 for ranks of other nodes, which get no messages
  /// here; `self`: this rank. No other messages have `context`.
  RunTransport(Rank& rank, uint64_t context, RankList members, uint32_t self)
      : rank_(rank), context_(context), members_(std::move(members)), self_(self) {}
  virtual ~RunTransport() = default;
  RunTransport(const RunTransport&) = delete;
  RunTransport& operator=(const RunTransport&) = delete;

  Code send(uint32_t rank, int32_t tag, const void* data, uint64_t bytes, void** handle) override;
  Code receive(uint32_t rank, int32_t tag, void* data, uint64_t bytes, void** handle) override;
  bool test(void* handle, Code* code) override;
  void abandon(void* handle) override;
  void announce(uint64_t number, uint32_t digest) override;
  void give_up(uint64_t, int32_t) override {}
  // Both ask the ranks of this node.
  [[nodiscard]] bool contradicted(uint64_t number, uint32_t digest) const override;
  [[nodiscard]] bool bereft() const override;
  /// Whether that rank is of this node and has died.
  [[nodiscard]] bool is_dead(uint32_t rank) const;

 private:
  /// What a message that was started leaves its caller with: null if it is over.
  Code begun(Request* request, void** handle);

  Rank& rank_;
  uint64_t context_;
  RankList members_;
  uint32_t self_;
};

}  // namespace zh::engine
