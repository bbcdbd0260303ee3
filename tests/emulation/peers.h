// Barriers and small collectives in the shape of other libraries' trees, for comparison on the same machine
// (emulator.h): flags in shared memory, each with what it carries on a line of its own. The shapes are their documented
// defaults; what else these libraries do is left out. Used by emulation_test.cpp.
#pragma once

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/atomic.h"
#include "base/shm_types.h"
#include "coll/team/team_state.h"
#include "emulator.h"

namespace zh::emulation {

class Tree {
 public:
  /// MPICH's release_gather: ranks as a heap of so many children each.
  static Tree kary(uint32_t ranks, uint32_t children) {
    Tree tree(ranks);
    for (uint32_t r = 1; r < ranks; ++r) tree.adopt((r - 1) / children, r);
    return tree;
  }
  /// Open MPI's coll/xhc: members under the first rank of each group of the given sizes, smallest first, then all of
  /// those under rank 0.
  static Tree groups(uint32_t ranks, const std::vector<uint32_t>& sizes) {
    Tree tree(ranks);
    uint32_t below = 1;
    auto level = [&](uint32_t size) {
      for (uint32_t r = 0; r < ranks; r += below) {
        if (r % size != 0) tree.adopt(r - r % size, r);
      }
      below = size;
    };
    for (const uint32_t size : sizes) {
      if (size > below && size < ranks) level(size);
    }
    level(ranks);
    return tree;
  }

  void barrier(uint32_t self) {
    gather(self, 0, nullptr);
    release(self, 0);
  }
  /// The root is rank 0.
  uint64_t bcast(uint32_t self, uint64_t value) {
    ++nodes_[self].seq;
    return release(self, value);
  }
  uint64_t reduce(uint32_t self, uint64_t value) {
    gather(self, value, &value);
    return value;
  }
  uint64_t allreduce(uint32_t self, uint64_t value) {
    gather(self, value, &value);
    return release(self, value);
  }

 private:
  struct alignas(kPairBytes) Flag {
    Atomic<uint64_t> seq{0};
    uint64_t value = 0;
  };
  struct Node {
    uint32_t parent = 0;
    std::vector<uint32_t> children;
    uint64_t seq = 0;
    Flag up;
    Flag down;
  };
  explicit Tree(uint32_t ranks) : nodes_(ranks) {}
  void adopt(uint32_t parent, uint32_t child) {
    nodes_[child].parent = parent;
    nodes_[parent].children.push_back(child);
  }
  const Atomic<uint64_t>& up(uint32_t rank) const { return nodes_[rank].up.seq; }
  static void await(const Flag& flag, uint64_t seq) {
    wait([&] { return flag.seq.load_acquire() >= seq; });
  }
  void gather(uint32_t self, uint64_t value, uint64_t* sum) {
    Node& mine = nodes_[self];
    ++mine.seq;
    // Processors look ahead, as await_each() in the team does by itself.
    size_t come = 0;
    const size_t count = mine.children.size();
    wait([&] {
      size_t asked = come;
      while (come < count && up(mine.children[come]).load_acquire() >= mine.seq) {
        ++come;
        for (asked = std::max(asked, come); asked < std::min<size_t>(count, come + coll::kLinesAhead); ++asked) {
          prefetch_for_read(&up(mine.children[asked]));
        }
      }
      return come == count;
    });
    for (const uint32_t child : mine.children) value += nodes_[child].up.value;
    if (sum != nullptr) *sum = value;
    if (self == 0) return;
    mine.up.value = value;
    mine.up.seq.store_release(mine.seq);
  }
  uint64_t release(uint32_t self, uint64_t value) {
    Node& mine = nodes_[self];
    if (self != 0) {
      await(nodes_[mine.parent].down, mine.seq);
      value = nodes_[mine.parent].down.value;
    }
    if (mine.children.empty()) return value;
    mine.down.value = value;
    mine.down.seq.store_release(mine.seq);
    return value;
  }

  std::vector<Node> nodes_;
};

}  // namespace zh::emulation
