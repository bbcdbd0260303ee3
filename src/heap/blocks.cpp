// Blocks of the malloc family: what happens to shared pages when their block is freed or resized. Libc must never see
// them: it would unmap them, or write its own records into them, unseen.
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "heap/heap.h"
#include "heap/huge_pages.h"
#include "os/clock.h"

namespace zh::heap {

void* Heap::reuse(size_t n) {
  if (n < kLeastKeptBytes || !kept_.any() || mutex_.held_by_me()) return nullptr;
  if (!kept_.may_serve(n)) {
    constexpr uint32_t kMisses = 1024;
    const uint32_t missed = reuses_missed_.load_relaxed() + 1;
    reuses_missed_.store_relaxed(missed);
    if (missed % kMisses == 0) release_idle_blocks();
    return nullptr;
  }
  KeptBlock block;
  const Locked lock(mutex_);
  if (!kept_.take(n, &block)) return nullptr;
  ++counts_.reused_blocks;
  return block.address;
}

// Makes room for a block of so many bytes; those taken out are private memory again, and the caller's to free without
// the lock.
void Heap::release_old_blocks(uint64_t bytes, KeptBlock* out, uint32_t* n) {
  const uint64_t now = os::now_ns();
  KeptBlock block;
  while (*n < kKeptBlocks && kept_.take_oldest(bytes, now, &block)) {
    if (drop_block(block.address, block.bytes)) out[(*n)++] = block;
  }
}

void Heap::release_idle_blocks() {
  KeptBlock old[kKeptBlocks];
  uint32_t n_old = 0;
  {
    const Locked lock(mutex_);
    release_old_blocks(0, old, &n_old);
  }
  free_blocks(old, n_old);
}

void Heap::free_blocks(const KeptBlock* blocks, uint32_t n) {
  for (uint32_t i = 0; i < n; ++i) around_.free_block(blocks[i].address);
}

// All but libc's own words in front of a block.
bool Heap::drop_block(void* block, uint64_t bytes) {
  const Pages pages = wanted_pages(block, bytes);
  size_t words[2] = {};
  auto* const front = static_cast<std::byte*>(block) - sizeof words;
  const bool with_front = pages.address() == front;
  if (with_front) std::memcpy(words, front, sizeof words);
  const bool ok = drop(pages);
  if (with_front) std::memcpy(front, words, sizeof words);
  return ok;
}

bool Heap::keep(void* block) {
  if (mutex_.held_by_me()) return false;
  const uint64_t bytes = around_.usable_bytes(block);
  const Pages pages = wanted_pages(block, bytes);
  if (pages.n == 0 || !meets(pages)) return false;
  const int kept_errno = errno;
  KeptBlock old[kKeptBlocks];
  uint32_t n_old = 0;
  bool ours = true;
  {
    const Locked lock(mutex_);
    if (kept_.holds(block)) {
      os::say_line("free(): double free detected", "");
      std::abort();
    }
    release_old_blocks(bytes, old, &n_old);
    const bool huge = bytes >= kHugePage && huge_wishes_.load_relaxed() != 0;
    const bool worth = takes() && around_.keeps_blocks && bytes >= kLeastKeptBytes && bytes <= kKeptBlockBytes &&
                       !huge && 2 * table_.count(Bit::kShared, pages) >= pages.n;
    bool plain = true;
    for (const Bit bit : {Bit::kGuarded, Bit::kWiped, Bit::kHidden, Bit::kLeft})
      plain = plain && table_.none(bit, pages);
    if (worth && plain && kept_.has_room(bytes)) {
      kept_.keep({block, bytes, os::now_ns()});
    } else {
      ours = !drop_block(block, bytes);  // a block that cannot become private again is lost
    }
  }
  free_blocks(old, n_old);
  errno = kept_errno;
  return ours;
}

bool Heap::prepare_resize(void* block) {
  if (mutex_.held_by_me()) return true;
  const uint64_t bytes = around_.usable_bytes(block);
  const Pages pages = wanted_pages(block, bytes);
  if (pages.n == 0 || !meets(pages)) return true;
  // The system moves one mapping at a time, and fresh memory joins old memory only by chance: with the few pages that
  // no message has used, a block that libc has mapped becomes one mapping again, which libc can then move.
  const bool mapped = pages.first < pages_inside(block, bytes).first;
  const uint64_t plain = pages.n - table_.count(Bit::kShared, pages) - table_.count(Bit::kLeft, pages);
  if (!mapped || plain > kChunkPages) return come_back(pages.address(), pages.bytes());
  const Locked lock(mutex_);
  keep_peers_away(true);
  bool ok = true;
  for (uint64_t page = pages.first; ok && page < pages.end();) {
    const auto kind = [this](uint64_t at) {
      return table_.count(Bit::kShared, {at, 1}) + 2 * table_.count(Bit::kLeft, {at, 1});
    };
    const uint64_t first = kind(page);
    uint64_t end = page + 1;
    while (end < pages.end() && kind(end) == first) ++end;
    ok = copy_back({page, end - page});
    page = end;
  }
  keep_peers_away(false);
  return ok;
}

bool Heap::trim() {
  if (!kept_.any() || mutex_.held_by_me()) return false;
  KeptBlock old[kKeptBlocks];
  uint32_t n_old = 0;
  {
    const Locked lock(mutex_);
    release_old_blocks(kKeptBytes, old, &n_old);
  }
  free_blocks(old, n_old);
  return n_old != 0;
}

}  // namespace zh::heap
