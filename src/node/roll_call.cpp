// See roll_call.h. A few ranks look for each other's marks. More of them form a tree. Each looks for the marks of its
// children and of its parent, and only ranks that have seen each other's exchange messages: an answer up, the whole
// tree's down. Every rank has a few looks and messages, however many there are. Where one is missing the tree falls
// into parts, each of which touches a missing rank, so that all parts come to the same answer.
#include "node/roll_call.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace zh::node {
namespace {

constexpr int kChildren = 8;
constexpr int kFew = 4;        ///< ranks that look for each other
constexpr int kBlock = 128;    ///< ranks that are looked for at once
constexpr size_t kNamed = 16;  ///< ranges of ranks in a line

int parent_of(int rank) { return (rank - 1) / kChildren; }

/// "rank 3", "ranks 3, 5-7".
std::string named(const std::vector<int>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  size_t ranges = 0;
  for (size_t first = 0, last = 0; first < ranks.size(); first = last + 1, ++ranges) {
    if (ranges == kNamed) return text + " and " + std::to_string(ranks.size() - first) + " more";
    last = first;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    if (first > 0) text += ", ";
    text += std::to_string(ranks[first]);
    if (last > first) text += (last == first + 1 ? ", " : "-") + std::to_string(ranks[last]);
  }
  return text;
}

}  // namespace

bool all_take_part(Roll& roll, int rank, int size) {
  std::vector<int> neighbours;
  if (size <= kFew) {
    for (int other = 0; other < size; ++other) {
      if (other != rank) neighbours.push_back(other);
    }
    roll.prepare(neighbours, false);
    return std::ranges::all_of(neighbours, [&](int other) { return roll.look(other) == Presence::kSame; });
  }
  const int64_t first = int64_t{rank} * kChildren + 1;
  for (int64_t child = first; child < std::min<int64_t>(first + kChildren, size); ++child) {
    neighbours.push_back(static_cast<int>(child));
  }
  if (rank != 0) neighbours.push_back(parent_of(rank));
  roll.prepare(neighbours, false);
  if (rank != 0) neighbours.pop_back();

  bool all = true;
  std::vector<int> children;
  for (const int child : neighbours) {
    const bool same = roll.look(child) == Presence::kSame;
    if (same) children.push_back(child);
    all = all && same;
  }
  for (const int child : children) all = roll.hear(child) && all;
  if (rank != 0) {
    const bool same = roll.look(parent_of(rank)) == Presence::kSame;
    if (same) roll.tell(parent_of(rank), all);
    all = same && roll.hear(parent_of(rank));
  }
  for (const int child : children) roll.tell(child, all);
  return all;
}

std::string who_is_missing(Roll& roll, int rank, int size) {
  std::vector<int> absent;
  std::vector<int> other;
  std::vector<int> block;
  for (int r = 0; r < size; ++r) {
    if (r % kBlock == 0) {
      block.resize(static_cast<size_t>(std::min(kBlock, size - r)));
      std::iota(block.begin(), block.end(), r);
      roll.prepare(block, true);
    }
    const Presence presence = r == rank ? Presence::kSame : roll.look(r);
    if (r < rank && presence != Presence::kAbsent) return "";
    if (presence == Presence::kAbsent) absent.push_back(r);
    if (presence == Presence::kOther) other.push_back(r);
  }
  std::string text;
  if (!absent.empty()) text = named(absent) + (absent.size() == 1 ? " runs" : " run") + " without zerohop";
  if (!other.empty()) {
    if (!text.empty()) text += ", ";
    text += named(other) + (other.size() == 1 ? " runs" : " run") + " another build of it";
  }
  return text;
}

}  // namespace zh::node
