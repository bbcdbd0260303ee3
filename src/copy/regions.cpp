// RegionOwner: an allocator inside memfd regions. Pages are found by best fit; allocations up to 2 KiB share slabs.
// locate() reads a table of pages without a lock. Peers are unknown here; see region_cache.cpp for their side.
#include "copy/regions.h"

#include <bit>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <new>
#include <unordered_map>
#include <vector>

#include "base/atomic.h"
#include "base/shm_types.h"
#include "copy/page_map.h"
#include "os/affinity.h"
#include "os/process.h"
#include "os/segment.h"
#include "os/vm.h"

namespace zh::copy {
namespace {

constexpr uint64_t kFirstRegionBytes = 256 << 20;  ///< address space, not memory; each further region is twice as large
constexpr uint32_t kMaxRegions = 32;
constexpr uint64_t kSlabPages = 16;
constexpr uint64_t kMinSlot = 64;
constexpr uint64_t kMaxSlot = 2048;
constexpr uint32_t kClasses = 6;  ///< 64, 128, ... 2048
/// Freed ranges of this size go back to the system at once, smaller ones when so much lies idle.
constexpr uint64_t kReleaseBytes = 4 << 20;
constexpr uint64_t kIdleBytes = 32 << 20;

// A page's entry: flags, and above them the page after the allocation's last one; of a slab, the slot's size class
// (bits 8 to 15) and the page's place in the slab (from bit 16).
constexpr uint64_t kLive = 1;
constexpr uint64_t kSlab = 2;
constexpr uint64_t kHead = 4;
constexpr uint64_t kBacked = 8;
constexpr unsigned kValueShift = 8;
constexpr unsigned kPlaceShift = 16;

struct FreeDeleter {
  void operator()(void* p) const { std::free(p); }
};
using Words = std::unique_ptr<Atomic<uint64_t>[], FreeDeleter>;

/// Zeroed words, taken from the system only as they are used (calloc of a large block maps it).
Words lazy_words(uint64_t n) { return Words(static_cast<Atomic<uint64_t>*>(std::calloc(n, sizeof(Atomic<uint64_t>)))); }

struct Region {
  explicit Region(uint64_t n) : bytes(n), free(static_cast<uint32_t>(n / kPage)) {}
  ~Region() { os::unmap(base, bytes); }
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;

  std::byte* base = nullptr;
  uint64_t bytes;
  os::Descriptor fd;
  uint32_t generation = 0;
  PageMap free;
  Words entries;  ///< one per page
  Words live;     ///< one bit per 64 bytes of a slab: set at the start of a slot in use

  [[nodiscard]] uint64_t entry(uint64_t page) const { return entries[page].load_relaxed(); }
  [[nodiscard]] bool slot_live(uint64_t offset) const {
    return (live[offset / kMinSlot / 64].load_relaxed() >> (offset / kMinSlot % 64) & 1) != 0;
  }
  void set_slot(uint64_t offset, bool in_use) {
    Atomic<uint64_t>& word = live[offset / kMinSlot / 64];
    const uint64_t bit = uint64_t{1} << (offset / kMinSlot % 64);
    word.store_relaxed(in_use ? word.load_relaxed() | bit : word.load_relaxed() & ~bit);
  }
};

struct Slab {
  uint32_t region = 0;
  uint32_t first_page = 0;
  uint32_t slots = 0;
  std::vector<uint16_t> free;
};

uint64_t default_budget() {
  uint64_t available = ~uint64_t{0};
  const std::string info = os::read_small_file("/proc/meminfo");
  if (const size_t at = info.find("MemAvailable:"); at != std::string::npos) {
    available = std::strtoull(info.c_str() + at + 13, nullptr, 10) << 10;
  }
  const uint64_t headroom = os::cgroup_memory(os::find_cgroup()).headroom();
  return (available < headroom ? available : headroom) / 2;
}

}  // namespace

struct RegionOwner::State {
  mutable std::mutex mutex;
  uint64_t budget = 0;
  uint64_t backed = 0;  ///< bytes with memory behind them
  uint64_t idle = 0;    ///< of these, bytes in no allocation
  // Regions are added, never removed before the owner ends, so locate() reads them without the lock.
  Atomic<uint32_t> n_regions{0};
  std::unique_ptr<Region> regions[kMaxRegions];
  std::unordered_map<uint64_t, Slab> slabs;    ///< by region and first page
  std::vector<uint64_t> open_slabs[kClasses];  ///< keys of slabs with a free slot

  static uint64_t key(uint32_t region, uint64_t page) { return uint64_t{region} << 32 | page; }

  [[nodiscard]] uint32_t region_of(const void* p) const {
    const auto address = reinterpret_cast<uintptr_t>(p);
    const uint32_t n = n_regions.load_acquire();  // G1 <- G0: a region's fields before its number counts
    for (uint32_t i = 0; i < n; ++i) {
      if (address - reinterpret_cast<uintptr_t>(regions[i]->base) < regions[i]->bytes) return i;
    }
    return kMaxRegions;
  }

  bool add_region(uint64_t at_least) {
    const uint32_t n = n_regions.load_relaxed();
    if (n == kMaxRegions) return false;
    uint64_t bytes = kFirstRegionBytes << (n < 10 ? n : 10);
    if (bytes < at_least) bytes = round_up(at_least, kWindowBytes);
    if (bytes / kPage >= PageMap::kNone || os::address_space_left() / 2 < bytes) return false;
    auto region = std::make_unique<Region>(bytes);
    region->entries = lazy_words(bytes / kPage);
    region->live = lazy_words(bytes / kMinSlot / 64);
    if (!region->entries || !region->live) return false;
    if (!os::make_memfd("zerohop-region", bytes, &region->fd).ok()) return false;
    if (!os::map_shared(region->fd.get(), bytes, &region->base).ok()) return false;
    region->generation = os::file_generation(region->fd.get());
    regions[n] = std::move(region);
    n_regions.store_release(n + 1);  // G0 -> G1: a region's fields before its number counts
    return true;
  }

  /// Puts memory behind free pages and touches it; true if all of them have it.
  bool back(Region& region, uint64_t first, uint64_t pages) {
    for (uint64_t page = first; page < first + pages;) {
      if ((region.entry(page) & kBacked) != 0) {
        ++page;
        continue;
      }
      uint64_t end = page + 1;
      while (end < first + pages && (region.entry(end) & kBacked) == 0) ++end;
      const uint64_t bytes = (end - page) * kPage;
      if (backed + bytes > budget || !os::back_range(region.fd.get(), page * kPage, bytes).ok()) return false;
      backed += bytes;
      idle += bytes;
      os::populate(region.base + page * kPage, bytes);
      for (; page < end; ++page) {
        *static_cast<volatile std::byte*>(region.base + page * kPage) = std::byte{0};
        region.entries[page].store_relaxed(kBacked);
      }
    }
    return true;
  }

  void release(Region& region, uint64_t first, uint64_t pages) {
    for (uint64_t page = first; page < first + pages;) {
      uint64_t end = page;
      while (end < first + pages && (region.entry(end) & kBacked) != 0) ++end;
      if (end == page) {
        ++page;
        continue;
      }
      if (os::release_range(region.fd.get(), page * kPage, (end - page) * kPage).ok()) {
        for (uint64_t k = page; k < end; ++k) region.entries[k].store_relaxed(0);
        backed -= (end - page) * kPage;
        idle -= (end - page) * kPage;
      }
      page = end;
    }
  }

  /// A run of backed pages in some region; false when memory or address space is short.
  bool take_pages(uint64_t pages, uint64_t alignment, uint32_t* region_index, uint32_t* first) {
    if (pages >= PageMap::kNone || pages * kPage > budget) return false;
    const auto n = static_cast<uint32_t>(pages);
    for (uint32_t i = 0;; ++i) {
      if (i == n_regions.load_relaxed() && !add_region((pages + alignment) * kPage)) return false;
      Region& region = *regions[i];
      *first = region.free.take(n, static_cast<uint32_t>(alignment));
      if (*first == PageMap::kNone) continue;
      *region_index = i;
      if (back(region, *first, pages)) {
        idle -= pages * kPage;
        return true;
      }
      region.free.give_back(*first, n);
      return false;
    }
  }

  void give_pages(uint32_t region_index, uint64_t first, uint64_t pages) {
    Region& region = *regions[region_index];
    for (uint64_t k = first; k < first + pages; ++k) region.entries[k].store_relaxed(kBacked);
    idle += pages * kPage;
    if (pages * kPage >= kReleaseBytes || idle > kIdleBytes) release(region, first, pages);
    region.free.give_back(static_cast<uint32_t>(first), static_cast<uint32_t>(pages));
  }

  void* take_slot(uint32_t size_class) {
    const uint64_t slot = kMinSlot << size_class;
    if (open_slabs[size_class].empty()) {
      Slab slab;
      if (!take_pages(kSlabPages, 1, &slab.region, &slab.first_page)) return nullptr;
      slab.slots = static_cast<uint32_t>(kSlabPages * kPage / slot);
      for (uint32_t i = slab.slots; i > 0; --i) slab.free.push_back(static_cast<uint16_t>(i - 1));
      Region& region = *regions[slab.region];
      for (uint64_t k = 0; k < kSlabPages; ++k) {
        // Above the class, the page's place in the slab: free() finds the slab's start by it.
        region.entries[slab.first_page + k].store_relaxed(kLive | kSlab | kBacked |
                                                          uint64_t{size_class} << kValueShift | k << kPlaceShift);
      }
      const uint64_t id = key(slab.region, slab.first_page);
      open_slabs[size_class].push_back(id);
      slabs.emplace(id, std::move(slab));
    }
    Slab& slab = slabs.at(open_slabs[size_class].back());
    const uint64_t offset = slab.first_page * kPage + slab.free.back() * slot;
    slab.free.pop_back();
    if (slab.free.empty()) open_slabs[size_class].pop_back();
    regions[slab.region]->set_slot(offset, true);
    return regions[slab.region]->base + offset;
  }

  bool free_slot(uint32_t region_index, uint64_t offset, uint64_t entry) {
    Region& region = *regions[region_index];
    const auto size_class = static_cast<uint32_t>(entry >> kValueShift & 0xff);
    const uint64_t slot = kMinSlot << size_class;
    const uint64_t first_page = offset / kPage - (entry >> kPlaceShift);
    if (offset % slot != 0 || !region.slot_live(offset)) return false;
    region.set_slot(offset, false);
    const uint64_t id = key(region_index, first_page);
    Slab& slab = slabs.at(id);
    if (slab.free.empty()) open_slabs[size_class].push_back(id);
    slab.free.push_back(static_cast<uint16_t>((offset - first_page * kPage) / slot));
    auto& open = open_slabs[size_class];
    if (slab.free.size() == slab.slots && open.size() > 1) {
      // Empty, and others of its class have room: its pages may serve anything.
      std::erase(open, id);
      slabs.erase(id);
      give_pages(region_index, first_page, kSlabPages);
    }
    return true;
  }
};

RegionOwner::RegionOwner(uint64_t budget_bytes) : state_(std::make_unique<State>()) { state_->budget = budget_bytes; }

RegionOwner::~RegionOwner() = default;

void* RegionOwner::allocate(size_t n, size_t alignment) {
  State& s = *state_;
  if (alignment < kMinSlot) alignment = kMinSlot;
  if (!std::has_single_bit(alignment) || alignment > kWindowBytes) return nullptr;
  if (n == 0) n = 1;
  const std::lock_guard lock(s.mutex);
  try {
    if (s.budget == 0) s.budget = default_budget();
    if (n <= kMaxSlot && alignment <= kMaxSlot) {
      const uint64_t slot = std::bit_ceil(n > alignment ? n : alignment);
      return s.take_slot(static_cast<uint32_t>(std::countr_zero(slot / kMinSlot)));
    }
    if (n > s.budget) return nullptr;
    const uint64_t pages = round_up(n, kPage) / kPage;
    uint32_t region_index = 0;
    uint32_t first = 0;
    // Region bases are only page aligned, so a larger alignment is found by taking more and giving the rest back.
    const uint64_t spare = alignment > kPage ? alignment / kPage - 1 : 0;
    if (!s.take_pages(pages + spare, 1, &region_index, &first)) return nullptr;
    Region& region = *s.regions[region_index];
    const auto address = reinterpret_cast<uintptr_t>(region.base) + first * kPage;
    const uint64_t skip = (round_up(address, alignment) - address) / kPage;
    if (skip > 0) s.give_pages(region_index, first, skip);
    if (skip < spare) s.give_pages(region_index, first + skip + pages, spare - skip);
    const uint64_t head = first + skip;
    for (uint64_t k = head; k < head + pages; ++k) {
      region.entries[k].store_relaxed(kLive | kBacked | (k == head ? kHead : 0) | (head + pages) << kValueShift);
    }
    return region.base + head * kPage;
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

bool RegionOwner::free(void* p) {
  State& s = *state_;
  const uint32_t index = s.region_of(p);
  if (index == kMaxRegions) return false;
  const std::lock_guard lock(s.mutex);
  Region& region = *s.regions[index];
  const auto offset = static_cast<uint64_t>(static_cast<std::byte*>(p) - region.base);
  const uint64_t page = offset / kPage;
  const uint64_t entry = region.entry(page);
  try {
    if ((entry & kLive) == 0) return false;
    if ((entry & kSlab) != 0) return s.free_slot(index, offset, entry);
    if ((entry & kHead) == 0 || offset % kPage != 0) return false;
    s.give_pages(index, page, (entry >> kValueShift) - page);
  } catch (const std::bad_alloc&) {
    // The range stays unused until the owner ends; nothing else is lost.
  }
  return true;
}

bool RegionOwner::locate(const void* address, size_t n, RegionRef* ref) const {
  const State& s = *state_;
  const uint32_t index = s.region_of(address);
  if (index == kMaxRegions) return false;
  const Region& region = *s.regions[index];
  const auto offset = static_cast<uint64_t>(static_cast<const std::byte*>(address) - region.base);
  const uint64_t entry = region.entry(offset / kPage);
  if ((entry & kLive) == 0) return false;
  uint64_t end = 0;
  if ((entry & kSlab) != 0) {
    const uint64_t slot = kMinSlot << (entry >> kValueShift & 0xff);
    const uint64_t start = offset / slot * slot;
    if (!region.slot_live(start)) return false;
    end = start + slot;
  } else {
    end = (entry >> kValueShift) * kPage;
  }
  if (n > end - offset) return false;
  *ref = {index + 1, region.generation, offset};
  return true;
}

int RegionOwner::descriptor(uint32_t region) const {
  if (region == 0 || region > state_->n_regions.load_acquire()) return -1;  // G1 <- G0: as in region_of
  return state_->regions[region - 1]->fd.get();
}

bool RegionOwner::used() const { return state_->n_regions.load_relaxed() != 0; }

bool RegionOwner::copy_in_child(uint64_t most_bytes) {
  State& s = *state_;
  const bool copies = s.backed - s.idle <= most_bytes;
  bool ok = true;
  const uint32_t n = s.n_regions.load_relaxed();
  for (uint32_t i = 0; i < n; ++i) {
    Region& region = *s.regions[i];
    const uint64_t pages = region.bytes / kPage;
    for (uint64_t page = 0; page < pages; ++page) {
      if ((region.entry(page) & kLive) == 0) continue;
      const uint64_t first = page;
      while (page < pages && (region.entry(page) & kLive) != 0) ++page;
      std::byte* const at = region.base + first * kPage;
      const uint64_t bytes = (page - first) * kPage;
      if (!copies) {
        ok = os::map_file_at(at, bytes, region.fd.get(), first * kPage, true) && ok;
      } else {
        ok = os::map_private_at(at, bytes) && os::read_at(region.fd.get(), first * kPage, at, bytes) && ok;
      }
    }
  }
  return ok;
}

uint64_t RegionOwner::backed_bytes() const {
  const std::lock_guard lock(state_->mutex);
  return state_->backed;
}

}  // namespace zh::copy
