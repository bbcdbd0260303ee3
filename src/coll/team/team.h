// Team: the members of a communicator that are all on this node, and their blocking collectives over shared memory and
// single copy. Called by the shim through engine::Rank; one thread at a time per team (MPI standard 6.14). Every member
// calls the same operations in the same order.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/status.h"
#include "coll/types.h"

namespace zh::coll {

class ControlBlockPool;
class Services;

class Team {
 public:
  /// `members`: node-local indices in the order of the communicator's ranks; `self`: this rank's place among them.
  /// `context` is the same on every member, and no other messages have it. Nothing is allocated or told to anybody yet.
  Team(Services& services, ControlBlockPool& pool, uint64_t context, std::vector<uint32_t> members, uint32_t self);
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  /// Collective and synchronising at its first call, then cheap: true if every member has the memory that it takes;
  /// false on all of them otherwise: then no other function may be called.
  [[nodiscard]] bool ready();

  [[nodiscard]] uint32_t size() const;
  [[nodiscard]] uint32_t self() const;

  /// From now on large allreduces go through staging areas, in that order; kCyclic where the operation commutes.
  void set_staging_order(StagingOrder order);

  // All return kOk, kPeerDead or kNoMemory (on a member that has none for its part); or, where members disagree on a
  // length, on those that see it: kTruncated (more came than there is room for, or goes into a reduction) or kInvalid
  // (less goes into a reduction, or a member refused or had no memory). Members stay together, so that the next
  // collective is a right one again. Buffers of one rank do not overlap, except that a rank's own piece may be given as
  // both send and receive buffer ("in place"), and `in` may be `out` of a reduction. Layouts may differ between ranks.
  // Where a v- or w-variant is meant, `Pieces::list` is set on all ranks that give pieces and `uniform` is false; else
  // all pieces of all ranks have the same number of bytes.

  Code barrier();
  Code bcast(const copy::Buffer& data, uint32_t root);
  Code gather(const copy::Buffer& send, const Pieces& recv, uint32_t root, bool uniform);
  Code scatter(const Pieces& send, const copy::Buffer& recv, uint32_t root, bool uniform);
  Code allgather(const copy::Buffer& send, const Pieces& recv);
  Code alltoall(const Pieces& send, const Pieces& recv, bool uniform);
  // Reductions: contiguous elements, `count` of them on every rank.
  Code reduce(const void* in, void* out, uint64_t count, const Reduction& how, uint32_t root);
  Code allreduce(const void* in, void* out, uint64_t count, const Reduction& how);
  /// Rank r receives counts[r] elements. `out` may be the start of `in` (in place).
  Code reduce_scatter(const void* in, void* out, const uint64_t* counts, const Reduction& how);
  /// MPI_Scan, or MPI_Exscan (`exclusive`: `out` of rank 0 is left alone).
  Code scan(const void* in, void* out, uint64_t count, const Reduction& how, bool exclusive);

  /// Whether neighbors() may be called: no member has more than 64 edges on one side. `edges`: those of this one.
  /// Collective and synchronising; before the first call of the other.
  [[nodiscard]] bool agree_on_edges(uint32_t edges);
  /// The k-th block sent to a member is its k-th received from this one. Waits for those that send to this member.
  Code neighbors(const Blocks& send, const Blocks& recv);

  /// Collectives that this member has begun.
  [[nodiscard]] uint32_t begun() const;
  /// Whether the control blocks have grown, alike on all members.
  [[nodiscard]] bool grown() const;
  /// Whether less has come in the last one than this member had room for.
  [[nodiscard]] bool fell_short() const;
  /// In place of the next one, which this member cannot take part in: the others learn so. `to_all`: an allreduce.
  void refuse(bool to_all);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace zh::coll
