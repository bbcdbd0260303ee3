// Which receives and probes from anywhere a peer's death concerns.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

namespace zh::p2p {

/// The ranks of the node that have ended, as seen by one rank. A receive from anywhere may still be served by others,
/// so the death of a member of its context is told once: to the receives that are open then, else to the next receive
/// or probe that finds nothing (as MPI_ERR_PROC_FAILED of fault-tolerant MPI, acknowledged by being told). When no
/// other member is left, every one is told.
class Deaths {
 public:
  /// `self` is this rank's index among `ranks`.
  Deaths(uint32_t self, uint32_t ranks) : self_(self), ended_(ranks) {}

  /// The members of a context: node-local indices, negative for those of other nodes. They must stay where they are
  /// until forget(). A context that was never named has all ranks of the node.
  void name(uint64_t context, std::span<const int32_t> members) { contexts_[context].members = members; }
  void forget(uint64_t context) { contexts_.erase(context); }

  void add(uint32_t rank) {
    ended_[rank] = true;
    any_ = true;
  }
  /// Whether a receive from anywhere in `context`, for which nothing is there, is to be told of a death.
  [[nodiscard]] bool concern(uint64_t context) const { return any_ && is_concerned(context); }
  /// It was.
  void told(uint64_t context);

 private:
  struct Context {
    std::span<const int32_t> members;
    uint32_t told = 0;  ///< of how many deaths
  };
  struct Count {
    uint32_t ended = 0;
    uint32_t others = 0;  ///< members but this rank
  };
  [[nodiscard]] bool is_concerned(uint64_t context) const;
  [[nodiscard]] Count count(const Context* context) const;
  [[nodiscard]] const Context* find(uint64_t context) const;

  uint32_t self_;
  std::vector<bool> ended_;
  bool any_ = false;
  std::unordered_map<uint64_t, Context> contexts_;
};

}  // namespace zh::p2p
