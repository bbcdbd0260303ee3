// ByNodes: where the pieces of all ranks lie if those of one node's ranks follow those of another's, as leaders pass
// them on. Used by the files of algorithms by host-leaders.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "coll/schedule/builder.h"
#include "coll/schedule/problem.h"

namespace zh::coll {

class ByNodes {
 public:
  /// `bytes_of(rank)`: of its piece. `in_a_row`: the call's own buffer has them one behind another in rank order.
  template <typename F>
  ByNodes(const Layout& layout, bool in_a_row, F&& bytes_of)
      : layout_(layout), straight_(in_a_row && layout.consecutive()) {
    for (uint32_t node = 0; node < layout.nodes(); ++node) {
      first_.push_back(places_.size());
      const uint64_t before = total_;
      for (const uint32_t rank : layout.members(node)) {
        places_.push_back({total_, bytes_of(rank)});
        total_ += places_.back().bytes;
      }
      bytes_of_nodes_.push_back(total_ - before);
    }
  }

  /// Whether the call's own buffer has them so.
  [[nodiscard]] bool straight() const { return straight_; }
  [[nodiscard]] uint64_t total() const { return total_; }
  [[nodiscard]] const std::vector<uint64_t>& bytes_of_nodes() const { return bytes_of_nodes_; }
  /// Whether all nodes have as many bytes.
  [[nodiscard]] bool even() const {
    for (const uint64_t bytes : bytes_of_nodes_) {
      if (bytes != bytes_of_nodes_[0]) return false;
    }
    return true;
  }
  /// Bytes of the pieces of a node's ranks.
  [[nodiscard]] std::vector<uint64_t> bytes_in(uint32_t node) const {
    std::vector<uint64_t> bytes;
    for (uint32_t i = 0; i < layout_.members(node).size(); ++i) bytes.push_back(place(node, i).bytes);
    return bytes;
  }
  /// Of `all`, the pieces of a node's ranks together; that of its i-th rank.
  [[nodiscard]] Range part_of(Range all, uint32_t node) const {
    return all.part(place(node, 0).at, bytes_of_nodes_[node]);
  }
  [[nodiscard]] Range piece(Range all, uint32_t node, uint32_t i) const {
    return all.part(place(node, i).at, place(node, i).bytes);
  }

  /// Calls f(rank, its piece in `all`).
  template <typename F>
  void each(Range all, F&& f) const {
    for (uint32_t node = 0; node < layout_.nodes(); ++node) {
      const std::span<const uint32_t> members = layout_.members(node);
      for (uint32_t i = 0; i < members.size(); ++i) f(members[i], piece(all, node, i));
    }
  }

 private:
  [[nodiscard]] const Piece& place(uint32_t node, uint32_t i) const { return places_[first_[node] + i]; }

  const Layout& layout_;
  bool straight_;
  uint64_t total_ = 0;
  std::vector<size_t> first_;  ///< by node: place of its first rank's piece
  std::vector<Piece> places_;  ///< by node and rank
  std::vector<uint64_t> bytes_of_nodes_;
};

}  // namespace zh::coll
