// Which pages of a span are in use: an allocator of runs of pages (two-level segregated fit: good fit, constant time).
// Knows page numbers only, no addresses and no system calls; the owner of the memory asks it and serialises the calls.
#pragma once

#include <cstdint>

namespace zh::heap {

constexpr uint32_t kNoPage = ~uint32_t{0};

enum class RunState : uint32_t {
  kFree,     ///< may be taken
  kLive,     ///< an allocation, or a freed one that is kept whole
  kGrowing,  ///< an allocation with room to grow in
  kGone,     ///< never used again: the program or a fork has taken the pages out of the heap
};

/// Runs tile the span: the entry of a run's first page says what it is, that of its last page where it starts.
struct PageEntry {
  uint32_t pages_and_state;
  uint32_t start;  ///< first page of the run that ends here
  uint32_t prev;   ///< neighbours of a free run in its bin, as page + 1; 0 = none
  uint32_t next;
};

struct Run {
  uint32_t first = kNoPage;
  uint32_t pages = 0;
};

class PageRuns {
 public:
  static constexpr uint32_t kMaxPages = 1U << 29;

  /// `entries`: zeroed, one for each page that extend() will ever add. Nothing is touched yet.
  void open(PageEntry* entries) { entries_ = entries; }

  /// Adds `pages` fresh free pages at the end.
  void extend(uint32_t pages);
  /// Pages added so far.
  [[nodiscard]] uint32_t end() const { return end_; }

  /// First page of `pages` free ones in a row, a multiple of `alignment` (a power of two); kNoPage if there are none.
  [[nodiscard]] uint32_t take(uint32_t pages, uint32_t alignment);
  /// Frees the run that starts at `first`; returns the free run that it has become part of.
  Run give(uint32_t first);
  /// Cuts the live run that starts at `first` to `pages`; the rest becomes a live run of its own, at first + pages.
  void split(uint32_t first, uint32_t pages);
  /// Lengthens it to `pages` if the pages behind it are free.
  [[nodiscard]] bool grow(uint32_t first, uint32_t pages);

  [[nodiscard]] uint32_t pages_at(uint32_t first) const { return entries_[first].pages_and_state >> kStateBits; }
  [[nodiscard]] RunState state_at(uint32_t first) const {
    return static_cast<RunState>(entries_[first].pages_and_state & kStateMask);
  }
  /// Between the states that are not kFree.
  void set_state(uint32_t first, RunState state) { mark(first, pages_at(first), state); }

  /// Every free run becomes kGone.
  void retire_free();
  /// Takes the free run that starts at `first`, whole.
  void claim(uint32_t first);

  /// The first free run, longest bins first, for which accept(Run) is true; its first page is kNoPage if there is none.
  template <typename Accept>
  [[nodiscard]] Run find_free(Accept&& accept) const {
    for (uint32_t bin = kLevels * kSub; bin-- > 0;) {
      if ((filled_[bin / kSub] >> bin % kSub & 1) == 0) continue;
      for (uint32_t next = heads_[bin]; next != 0; next = entries_[next - 1].next) {
        const Run run{next - 1, pages_at(next - 1)};
        if (accept(run)) return run;
      }
    }
    return {};
  }

  /// Calls visit(Run) for every run, lowest first; visit may change the run's state.
  template <typename Visit>
  void for_each(RunState state, Visit&& visit) const {
    for (uint32_t first = 0; first < end_;) {
      const uint32_t pages = pages_at(first);
      if (state_at(first) == state) visit(Run{first, pages});
      first += pages;
    }
  }

 private:
  static constexpr uint32_t kStateBits = 3;
  static constexpr uint32_t kStateMask = (1U << kStateBits) - 1;
  // Bins: runs shorter than 16 pages have one each; from there on 16 for each power of two.
  static constexpr uint32_t kSubBits = 4;
  static constexpr uint32_t kSub = 1U << kSubBits;
  static constexpr uint32_t kLevels = 32 - kSubBits;

  [[nodiscard]] static uint32_t bin_of(uint32_t pages);
  /// The first filled bin from `bin` on, kNoPage if there is none.
  [[nodiscard]] uint32_t filled_from(uint32_t bin) const;
  void mark(uint32_t first, uint32_t pages, RunState state);
  void link(uint32_t first, uint32_t pages);
  void unlink(uint32_t first);

  PageEntry* entries_ = nullptr;
  uint32_t end_ = 0;
  uint32_t levels_ = 0;               ///< a bit for each level with a filled bin
  uint16_t filled_[kLevels]{};        ///< a bit for each filled bin
  uint32_t heads_[kLevels * kSub]{};  ///< first page of the bin's first run, + 1
};

}  // namespace zh::heap
