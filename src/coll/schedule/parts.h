// What algorithms consist of: trees, rings, exchanges and folds among a group of ranks, told to a Builder. Used by the
// files of algorithms/, which put them together over all ranks, over the ranks of a node, or over one rank of every
// node.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "coll/schedule/builder.h"
#include "coll/schedule/problem.h"

namespace zh::coll {

/// Ranks of the communicator that do something together; all of them name the same ones in the same order.
struct Group {
  std::vector<uint32_t> ranks;
  uint32_t self = kNoStep;  ///< this rank's index in it; kNoStep: it is none of them

  Group(std::span<const uint32_t> members, uint32_t rank);
  [[nodiscard]] uint32_t size() const { return static_cast<uint32_t>(ranks.size()); }
  [[nodiscard]] bool has_self() const { return self != kNoStep; }
  /// The same ranks, starting with index `first`.
  [[nodiscard]] Group rotated(uint32_t first) const;
  /// Index of a member.
  [[nodiscard]] uint32_t index(uint32_t rank) const;
};

[[nodiscard]] Group everybody(const Problem& problem);
/// The ranks of a node of problem.layout.
[[nodiscard]] Group node_group(const Problem& problem, uint32_t node);
/// One rank of every node, in the order of nodes: its first, but on the node of `root` that (kNoStep: nowhere).
[[nodiscard]] Group leaders(const Problem& problem, uint32_t root);

/// The binomial tree on 0..n-1 with root 0: the subtree of v is [v, v + span). O(log n).
struct Binomial {
  uint32_t parent = 0;  ///< v = 0: meaningless
  uint32_t span = 1;
  uint32_t n_children = 0;
  std::array<uint32_t, 32> children{};  ///< largest subtree first
  Binomial(uint32_t v, uint32_t n);
  [[nodiscard]] std::span<const uint32_t> kids() const { return {children.data(), n_children}; }
};

/// Part i of n, of nearly equal parts of whole elements, without a remainder left out.
[[nodiscard]] Range block(Range whole, uint64_t i, uint64_t n, uint64_t element_bytes);
/// Parts [first, last) of n together.
[[nodiscard]] Range blocks(Range whole, uint64_t first, uint64_t last, uint64_t n, uint64_t element_bytes);

/// Into how many pieces a vector is cut at most: the messages of two ranks then have tags of their own, and what is
/// told of them stays below a few percent of the vector.
constexpr uint64_t kMostChunks = kTags;

/// Bytes of the pieces into which a vector of so many bytes is cut: problem.chunk_bytes in whole elements, or what
/// makes kMostChunks of them; 0: it stays whole.
[[nodiscard]] uint64_t piece_bytes(const Problem& problem, uint64_t vector_bytes);

/// Cuts a vector for pipelining, into pieces of piece_bytes().
class Chunks {
 public:
  Chunks(const Problem& problem, Range whole, uint64_t vector_bytes);
  Chunks(const Problem& problem, Range whole) : Chunks(problem, whole, whole.bytes) {}
  template <typename F>
  void each(F&& f) const {
    for (uint64_t at = 0; at < whole_.bytes; at += size_) {
      f(whole_.part(at, size_ < whole_.bytes - at ? size_ : whole_.bytes - at));
    }
  }

 private:
  Range whole_;
  uint64_t size_;  ///< bytes
};

/// Scratch memory for the chunks of a loop: two by turns, so that a chunk need not wait for the one before it.
class ScratchTurns {
 public:
  explicit ScratchTurns(Builder& b) : b_(b), mark_(b.scratch_mark()) {}
  ~ScratchTurns() { b_.scratch_release(mark_); }
  ScratchTurns(const ScratchTurns&) = delete;
  ScratchTurns& operator=(const ScratchTurns&) = delete;
  /// Opens a chunk's turn. What two chunks take has to be of the same size.
  void next();

 private:
  Builder& b_;
  uint64_t mark_, second_ = 0;
  uint64_t turn_ = 0;
};

/// Operands are combined one after the other without copying, as long as each has memory of its own: the result moves.
class Fold {
 public:
  Fold(Builder& builder, Range first) : builder_(builder), acc_(first) {}
  /// acc = acc op operand, and lies then where the operand was.
  void right(Range operand);
  /// acc = operand op acc. An accumulator that is still the input is copied to `home` before.
  void left(Range operand, Range home);
  [[nodiscard]] Range acc() const { return acc_; }
  /// Goes on with a part of it.
  void narrow(uint64_t from, uint64_t bytes) { acc_ = acc_.part(from, bytes); }

 private:
  Builder& builder_;
  Range acc_;
};

// What follows is told by every rank; those outside the group do nothing. `root` is an index in the group.

void bcast_linear(Builder& b, const Group& group, uint32_t root, Range data);
void bcast_binomial(Builder& b, const Group& group, uint32_t root, Range data);
/// out = in of the first op ... op in of the last; on the root alone. `in` may be `out`.
void reduce_linear(Builder& b, const Group& group, uint32_t root, Range in, Range out);
/// As reduce_linear, to index 0; `in` is not `out`.
void reduce_binomial(Builder& b, const Group& group, Range in, Range out);
/// out = in of the first op ... op in of the last, on all; the same bits on all. `in` may be `out`.
void allreduce_doubling(Builder& b, const Group& group, Range in, Range out);

// Inside a node that has a team (Problem::team); `node` are all its ranks. Also of no bytes.

/// All get `data` of `root`.
void node_bcast(Builder& b, const Group& node, uint32_t root, Range data);
/// As reduce_linear.
void node_reduce(Builder& b, const Group& node, uint32_t root, Range in, Range out);
// `parts`: bytes of each rank's part of a vector, one behind another; a rank may have none.
/// `own` of each gets its part of in of the first op ... op in of the last. It may lie in `in`.
void node_reduce_scatter(Builder& b, const Group& node, Range in, Range own, std::span<const uint64_t> parts);
/// All get all parts of `all`, where each has its own one.
void node_allgather(Builder& b, const Group& node, Range all, std::span<const uint64_t> parts);

// Inside a node with or without a team. `parts`: bytes of what each rank gives or gets, one behind another; `even`:
// they are of one size, as all know.

/// `all` of index 0 gets `own` of all. Returns the step after which this rank's own has been read.
uint32_t node_gather(Builder& b, const Group& node, bool team, Range own, Range all, std::span<const uint64_t> parts,
                     bool even);
/// All but `root` get `own`, their parts of its `all`.
void node_scatter(Builder& b, const Group& node, bool team, uint32_t root, Range all, Range own,
                  std::span<const uint64_t> parts, bool even);

/// One message from rank to rank, also of no bytes: then it says that, so that ranks that disagree on the length need
/// not wait for each other. Told by all; returns the step of the two that have one.
uint32_t pass(Builder& b, uint32_t self, uint32_t from, uint32_t to, Range data, Builder::After after = {});

/// The step that the first ranks of all nodes take together, in the order of nodes; that of `node` is the root.
[[nodiscard]] SharedBy between_leaders(const Problem& problem, uint32_t node = 0);

/// The members of a group that fold pairs so that a power of two is left; keeps the order of ranks.
struct Folded {
  uint32_t pow2 = 1;        ///< members left
  uint32_t pairs = 0;       ///< indices 2i and 2i + 1 for i < pairs are one: the odd one stays
  uint32_t self = kNoStep;  ///< this rank's number among those that are left
  Folded(const Group& group);
  /// Index in the group of the v-th that is left.
  [[nodiscard]] uint32_t index(uint32_t v) const { return v < pairs ? 2 * v + 1 : v + pairs; }
};
/// Before: hands `in` of the even members of pairs over; returns where the fold starts. After: gives `out` back.
[[nodiscard]] Fold fold_pairs(Builder& b, const Group& group, const Folded& folded, Range in, Range out);
void unfold_pairs(Builder& b, const Group& group, const Folded& folded, Range out);

}  // namespace zh::coll
