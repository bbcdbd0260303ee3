// RegionCache: windows found by a hash, the latest without it; pages of a copy are mapped in by one call instead of one
// fault each. The owner has put memory behind everything it publishes, so no page is ever made here.
#include "copy/region_cache.h"

#include <algorithm>
#include <bitset>
#include <list>
#include <new>
#include <unordered_map>
#include <vector>

#include "base/shm_types.h"
#include "os/segment.h"
#include "os/vm.h"

namespace zh::copy {
namespace {

constexpr uint64_t kWindowPages = kWindowBytes / kPage;
constexpr size_t kMostOpen = 32;  ///< descriptors of peers' regions

struct Window {
  uint32_t peer = 0;
  uint32_t region = 0;
  uint32_t generation = 0;
  bool writable = false;
  uint64_t index = 0;  ///< first byte / kWindowBytes
  uint64_t bytes = 0;  ///< less than kWindowBytes at the end of a region
  std::byte* address = nullptr;
  std::bitset<kWindowPages> present;  ///< pages that were mapped in, as far as known

  [[nodiscard]] bool is(uint32_t of, const RegionRef& ref) const {
    return peer == of && region == ref.region && generation == ref.generation && index == ref.offset / kWindowBytes;
  }
};

/// A peer's region as a file. Windows outlive its descriptor, which is opened again for the next one.
struct Opened {
  uint32_t peer = 0;
  uint32_t region = 0;
  uint32_t generation = 0;
  bool refused = false;    ///< it could not be opened, and is not tried again
  uint64_t last_used = 0;  ///< number of the use
  os::Descriptor fd;
};

uint64_t key_of(uint32_t peer, uint32_t region, uint64_t index) {
  uint64_t key = (uint64_t{peer} << 32 | region) * 0x9e3779b97f4a7c15U;
  key = (key ^ key >> 32 ^ index) * 0xff51afd7ed558ccdU;
  return key ^ key >> 29;
}

}  // namespace

struct RegionCache::State {
  explicit State(uint64_t n) : budget(std::max(n, kWindowBytes)) {}
  ~State() {
    for (const Window& w : windows) os::unmap(w.address, w.bytes);
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  using Place = std::list<Window>::iterator;

  [[nodiscard]] Place find(uint32_t peer, const RegionRef& ref) {
    if (!windows.empty() && windows.front().is(peer, ref)) return windows.begin();
    const auto [first, last] = places.equal_range(key_of(peer, ref.region, ref.offset / kWindowBytes));
    for (auto it = first; it != last; ++it) {
      if (!it->second->is(peer, ref)) continue;
      windows.splice(windows.begin(), windows, it->second);
      return windows.begin();
    }
    return windows.end();
  }

  void drop(Place window) {
    const auto [first, last] = places.equal_range(key_of(window->peer, window->region, window->index));
    for (auto it = first; it != last; ++it) {
      if (it->second != window) continue;
      places.erase(it);
      break;
    }
    os::unmap(window->address, window->bytes);
    mapped -= window->bytes;
    ++stats.unmapped;
    windows.erase(window);
  }

  template <typename Drop>
  void drop_if(Drop&& condition) {
    for (auto it = windows.begin(); it != windows.end();) {
      const auto here = it++;
      if (condition(*here)) drop(here);
    }
  }

  int open(uint32_t peer, int pid, int remote_fd, const RegionRef& ref) {
    Opened& entry = entry_of(peer, ref);
    if (entry.refused) return -1;
    entry.last_used = ++uses;
    if (entry.fd.valid()) return entry.fd.get();
    close_one_of_many();
    // Another file under the number is a failure, too: the program may close what it has not opened.
    entry.refused = !os::open_peer_memory(pid, remote_fd, ref.generation, &entry.fd).ok();
    return entry.fd.get();
  }

  Opened& entry_of(uint32_t peer, const RegionRef& ref) {
    Opened* entry = nullptr;
    for (Opened& o : opened) {
      if (o.peer != peer || o.region != ref.region) continue;
      if (o.generation == ref.generation) return o;
      // The peer has another region under the same number: what we hold of the old one is of no use.
      drop_if([&](const Window& w) { return w.peer == peer && w.region == ref.region; });
      entry = &o;
    }
    if (entry == nullptr) entry = &opened.emplace_back();
    *entry = {peer, ref.region, ref.generation, false, 0, {}};
    return *entry;
  }

  /// The program has a limit of descriptors, and perhaps as many peers.
  void close_one_of_many() {
    Opened* oldest = nullptr;
    size_t open_now = 0;
    for (Opened& o : opened) {
      if (!o.fd.valid()) continue;
      ++open_now;
      if (oldest == nullptr || o.last_used < oldest->last_used) oldest = &o;
    }
    if (open_now >= kMostOpen) oldest->fd.reset();
  }

  [[nodiscard]] Place map(uint32_t peer, int pid, int remote_fd, const RegionRef& ref, Direction direction) {
    const int fd = open(peer, pid, remote_fd, ref);
    if (fd < 0) return windows.end();
    const uint64_t start = ref.offset / kWindowBytes * kWindowBytes;
    const uint64_t end = os::size_of(fd);
    if (end <= ref.offset) return windows.end();
    const uint64_t bytes = std::min(end - start, kWindowBytes);
    while (mapped + bytes > budget) drop(std::prev(windows.end()));
    windows.emplace_front();
    const Place window = windows.begin();
    window->peer = peer;
    window->region = ref.region;
    window->generation = ref.generation;
    window->index = ref.offset / kWindowBytes;
    window->bytes = bytes;
    window->writable = direction == Direction::kWrite;
    places.emplace(key_of(peer, ref.region, window->index), window);
    if (!os::map_shared_range(fd, start, bytes, window->writable, &window->address).ok()) {
      window->bytes = 0;
      drop(window);
      --stats.unmapped;
      return windows.end();
    }
    mapped += bytes;
    ++stats.mapped;
    // A peer's memory: its own core file has it, and children do not get it.
    os::keep_out_of_dumps(window->address, bytes);
    (void)os::keep_from_children(window->address, bytes, true);
    return window;
  }

  /// Maps in the pages of [at, at + n) of the window that were not yet.
  void fault_in(Window& w, uint64_t at, uint64_t n) {
    uint64_t first = at / kPage;
    uint64_t end = (at + n + kPage - 1) / kPage;
    while (first < end && w.present[first]) ++first;
    while (first < end && w.present[end - 1]) --end;
    if (first == end) return;
    const uint64_t unit = os::page_bytes();
    const uint64_t from = first * kPage / unit * unit;
    const uint64_t to = std::min(round_up(end * kPage, unit), w.bytes);
    if (w.writable) {
      os::populate(w.address + from, to - from);
    } else {
      os::populate_for_reading(w.address + from, to - from);
    }
    for (; first < end; ++first) {
      if (!w.present[first]) ++stats.pages;
      w.present.set(first);
    }
  }

  uint64_t budget;
  uint64_t mapped = 0;
  WindowStats stats;
  std::list<Window> windows;  ///< most recently used first
  std::unordered_multimap<uint64_t, Place> places;
  std::vector<Opened> opened;
  uint64_t uses = 0;
};

RegionCache::RegionCache(size_t budget_bytes) : state_(std::make_unique<State>(budget_bytes)) {}
RegionCache::~RegionCache() = default;

std::byte* RegionCache::resolve(uint32_t peer, int pid, int remote_fd, const RegionRef& ref, uint64_t n,
                                Direction direction, uint64_t* run) {
  State& s = *state_;
  if (ref.region == 0) return nullptr;
  const uint64_t at = ref.offset % kWindowBytes;
  State::Place window = s.find(peer, ref);
  // The region may have grown since its last window was made.
  const bool too_short = window != s.windows.end() && at >= window->bytes;
  if (too_short) s.drop(window);
  if (too_short || window == s.windows.end()) {
    try {
      window = s.map(peer, pid, remote_fd, ref, direction);
    } catch (const std::bad_alloc&) {
      window = s.windows.end();
    }
    if (window == s.windows.end()) {
      ++s.stats.refused;
      return nullptr;
    }
  }
  if (direction == Direction::kWrite && !window->writable) {
    if (!os::make_writable(window->address, window->bytes).ok()) return nullptr;
    window->writable = true;
    window->present.reset();
  }
  *run = std::min(n, window->bytes - at);
  s.fault_in(*window, at, *run);
  return window->address + at;
}

void RegionCache::forget(uint32_t peer) {
  state_->drop_if([&](const Window& w) { return w.peer == peer; });
  std::erase_if(state_->opened, [&](const Opened& o) { return o.peer == peer; });
}

uint64_t RegionCache::mapped_bytes() const { return state_->mapped; }
const WindowStats& RegionCache::stats() const { return state_->stats; }

}  // namespace zh::copy
