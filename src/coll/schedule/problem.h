// Problem: what one rank knows about a collective that is to be scheduled, in bytes and ranks of the communicator.
// Written by the shim, the tests and the schedule command; read by the builders and the checker. It refuses to know
// addresses and MPI types: displacements start at 0, and derived datatypes are packed before.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "coll/schedule/schedule.h"
#include "coll/types.h"

namespace zh::coll {

[[nodiscard]] std::string_view name_of(Collective collective);
/// kCount if there is no such name.
[[nodiscard]] Collective collective_named(std::string_view name);
[[nodiscard]] bool reduces(Collective collective);
[[nodiscard]] bool has_root(Collective collective);

/// Which ranks share a node. Nodes are numbered in the order of their first ranks.
class Layout {
 public:
  /// `node_of_rank`: any numbers, equal for ranks of one node.
  explicit Layout(std::span<const uint32_t> node_of_rank);
  [[nodiscard]] static std::shared_ptr<const Layout> one_node(uint32_t ranks);

  [[nodiscard]] uint32_t ranks() const { return static_cast<uint32_t>(node_of_.size()); }
  [[nodiscard]] uint32_t nodes() const { return static_cast<uint32_t>(first_.size()) - 1; }
  [[nodiscard]] uint32_t node_of(uint32_t rank) const { return node_of_[rank]; }
  /// Ranks of a node, ascending.
  [[nodiscard]] std::span<const uint32_t> members(uint32_t node) const {
    return std::span<const uint32_t>(members_).subspan(first_[node], first_[node + 1] - first_[node]);
  }
  /// True if the ranks of every node follow each other, so that what nodes have combined is in rank order.
  [[nodiscard]] bool consecutive() const { return consecutive_; }
  [[nodiscard]] uint32_t smallest_node() const { return smallest_; }
  /// All ranks, ascending.
  [[nodiscard]] std::span<const uint32_t> everybody() const { return everybody_; }

 private:
  std::vector<uint32_t> node_of_, members_, first_, everybody_;
  uint32_t smallest_ = 0;
  bool consecutive_ = true;
};

/// Where the bytes for, or from, one rank lie in a buffer.
struct Piece {
  uint64_t at = 0;
  uint64_t bytes = 0;
  [[nodiscard]] bool operator==(const Piece&) const = default;
};

/// All ranks of a communicator have the same, except for `self`, `in_place`, the lists and the neighbours.
struct Problem {
  Collective collective = Collective::kBarrier;
  uint32_t self = 0;
  uint32_t root = 0;
  /// Elements: of the vector (bcast, reduce, allreduce, scan, exscan); of a piece (the others). Where pieces are not
  /// uniform: of this rank's own piece (gather, scatter).
  uint64_t count = 0;
  uint64_t element_bytes = 1;  ///< > 0; a vector is cut between elements only
  uint64_t chunk_bytes = 0;    ///< algorithms that pipeline cut into chunks of about this size; 0: not at all
  bool commutative = true;     ///< false: operands are combined in rank order
  /// MPI_IN_PLACE on this rank (MPI standard 6.2): the output holds the input (all of it; for gather and allgather the
  /// own piece at its place), or for scatter the root keeps its piece in the input.
  bool in_place = false;
  bool uniform = true;  ///< false: a v- or w-variant; the same on all ranks
  bool blocks = false;  ///< the call returns when its part is done; the same on all ranks
  /// The ranks of this node have a team, which takes its shared steps. The same on all ranks of the node, and only
  /// where the call blocks; what travels between nodes must not follow from it.
  bool team = false;
  std::shared_ptr<const Layout> layout = {};
  /// Not uniform, by rank: pieces of the input. scatter: on the root; alltoall: on all; reduce_scatter: on all, piece r
  /// is what rank r receives.
  std::vector<Piece> send = {};
  /// Not uniform, by rank: pieces of the output. gather: on the root; allgather: on all, of equal bytes on all;
  /// alltoall: on all.
  std::vector<Piece> recv = {};
  /// kNeighbor, never uniform: the ranks that this one receives from and sends to, a rank as often as there are edges
  /// (MPI standard 8.6). The k-th edge to a rank is the k-th that it has from this one. `send` and `recv` are by place
  /// in these lists.
  std::vector<uint32_t> sources = {};
  std::vector<uint32_t> destinations = {};

  [[nodiscard]] uint32_t ranks() const { return layout->ranks(); }
  /// Bytes of the vector, or of a uniform piece, or of the own one.
  [[nodiscard]] uint64_t bytes() const { return count * element_bytes; }
  /// The input's piece for `rank`, and the output's from `rank`. kNeighbor: `rank` is a place in the lists.
  [[nodiscard]] Range send_piece(uint32_t rank) const;
  [[nodiscard]] Range recv_piece(uint32_t rank) const;
  /// Size of this rank's buffers, 0 where it has none (in place: the other one stands for both).
  [[nodiscard]] uint64_t input_bytes() const;
  [[nodiscard]] uint64_t output_bytes() const;
  /// The whole vector (collectives that have one), in either buffer.
  [[nodiscard]] Range input() const { return {Place::kInput, 0, bytes()}; }
  [[nodiscard]] Range output() const { return {Place::kOutput, 0, bytes()}; }
};

/// 24 bits, equal on all ranks that take a call for the same; not kRefused. Of lengths, those that all ranks know.
[[nodiscard]] uint32_t digest(const Problem& problem);
constexpr uint32_t kRefused = 0;

/// The problem of every rank, where they differ by `self` only.
[[nodiscard]] std::vector<Problem> for_all_ranks(const Problem& problem);

}  // namespace zh::coll
