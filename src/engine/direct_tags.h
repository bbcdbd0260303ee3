// The host's tags of direct messages between nodes: long ones that go straight to their place, without an announcement.
// A sender gives each context a range of tags towards each rank, so messages of different contexts never share one.
// Within a range a message's tag follows from its tag of schedules. Kept by Internode; sends nothing itself.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "coll/schedule/schedule.h"

namespace zh::engine {

class DirectTags {
 public:
  /// One context's tags from one rank to another, at either end.
  class Range {
   public:
    /// `first` 0: there is none.
    Range(int32_t first, int32_t size) : first_(first), mask_(size - 1), open_(first != 0) {}

    [[nodiscard]] int32_t first() const { return first_; }
    /// Whether the sender still uses it.
    [[nodiscard]] bool open() const { return open_; }
    void close() { open_ = false; }
    [[nodiscard]] int32_t data_tag(int32_t tag) const { return first_ + (tag & mask_); }

    /// Of a call's messages with one tag of schedules only the first may be a direct one. Then those that follow do not
    /// overtake it, and it none of them.
    [[nodiscard]] bool used(int32_t tag) const { return use(tag) != Use::kNone; }
    /// Whether a direct message has passed with that tag in its call.
    [[nodiscard]] bool passed(int32_t tag) const { return use(tag) == Use::kDirect; }
    /// Whether it has, or its call is over.
    [[nodiscard]] bool is_past(int32_t tag) const;
    /// Before the next two, which need no memory then.
    void make_room(int32_t tag);
    void pass_direct(int32_t tag) { set(tag, Use::kDirect); }
    /// A message in a frame has passed: changes nothing behind a direct one.
    void pass_framed(int32_t tag) {
      if (!used(tag)) set(tag, Use::kFramed);
    }

   private:
    enum class Use : uint8_t { kNone, kDirect, kFramed };
    [[nodiscard]] Use use(int32_t tag) const;
    void set(int32_t tag, Use use);

    int32_t first_;
    int32_t mask_;
    bool open_;
    int32_t call_ = -1;      ///< first tag of the newest call
    std::vector<Use> uses_;  ///< its messages, by tag - call_
  };

  /// `tag_ub`: the host's greatest tag.
  explicit DirectTags(int32_t tag_ub);
  /// Tags of announced messages are 1 to this.
  [[nodiscard]] int32_t announced_ub() const { return announced_ub_; }

  // Ranges towards other ranks and from them. Null: that one was never asked for, or heard of.
  [[nodiscard]] Range* to(int32_t rank, uint64_t context) { return find(to_, rank, context); }
  [[nodiscard]] Range* from(int32_t rank, uint64_t context) { return find(from_, rank, context); }
  /// The first tag of the range that open() would give out next, 0: there is none left.
  [[nodiscard]] int32_t next(int32_t rank) const;
  /// `first`: next(), or 0 for a context that shall have none.
  Range* open(int32_t rank, uint64_t context, int32_t first);
  /// Another rank has told the first tag of one towards this rank.
  Range* learn(int32_t rank, uint64_t context, int32_t first);

 private:
  using Ranges = std::map<std::pair<int32_t, uint64_t>, Range>;  ///< by rank, context
  static Range* find(Ranges& ranges, int32_t rank, uint64_t context);

  int32_t size_;  ///< of a range: a power of two
  int32_t n_ranges_ = 0;
  int32_t announced_ub_;
  Ranges to_;
  Ranges from_;
  std::map<int32_t, int32_t> given_out_;  ///< by rank
};

}  // namespace zh::engine
