// A rank's own memory as its peers reach it, and keeping them away while the process forks.
#include "copy/peer_memory.h"

#include "os/clock.h"
#include "os/yield.h"

namespace zh::copy {

namespace {
constexpr uint64_t kMostGaps = 4;  // where memory is pinned: more of them than this times the data are not
constexpr uint64_t kPatienceNs = 10'000'000'000;  // with an access by who cannot be seen to end
constexpr uint32_t kSpinsBeforeYield = 1000;
constexpr uint32_t kLooksPerDeathCheck = 64;

/// The edges, which go another way, are short.
bool worth_mapping(const MappedBuffer& mapped, uint64_t bytes) {
  return mapped.from <= kEdgeMax && mapped.end <= bytes && bytes - mapped.end <= kEdgeMax && mapped.end > mapped.from;
}
}  // namespace

void PeerMemory::close() {
  shm::close_access(*words_[self_]);
  const uint64_t begin = os::now_ns();
  for (uint32_t i = 0; i < words_.size(); ++i) {
    if (i == self_) continue;
    os::Backoff backoff(kSpinsBeforeYield, kLooksPerDeathCheck);
    while (shm::still_accessed(*words_[i], self_)) {
      if (!backoff.pause()) continue;
      // Who is in another namespace copies by the kernel's module, from pages that nobody else can get.
      if (node_.ended(i) || (!node_.knows_pid(i) && os::now_ns() - begin > kPatienceNs)) break;
    }
  }
}

// The epoch comes first: a place that was found before the process forked must not go out with the epoch of after.
Published PeerMemory::look_up(const void* address, uint64_t bytes, bool exact, uint64_t saves_ns, OwnBuffer* buffer) {
  // X1 -> X0: the memory as it was when it was opened.
  const uint32_t epoch = words_[self_]->epoch.load_acquire();
  if (buffer->known && buffer->epoch == epoch) return Published::kMapped;
  buffer->forget();
  buffer->epoch = epoch;
  if (shm::is_closed(epoch)) return Published::kAskAgain;
  const Published answer = own_.publish(address, bytes, exact, {true, saves_ns}, &buffer->mapped);
  buffer->known = answer != Published::kAskAgain;
  if (answer == Published::kFirstUse) observer_.first_use();
  if (!worth_mapping(buffer->mapped, bytes)) buffer->mapped.region.region = 0;
  return answer;
}

bool PeerMemory::let_in(const Buffer& buffer, uint64_t bytes, bool writable) {
  const MemorySpan span = span_of({buffer.base, bytes, buffer.layout});
  return span.bytes <= kMostGaps * bytes && node_.module()->let_in(span.from, span.bytes, writable) == 0;
}

void PeerMemory::describe(const void* address, uint64_t bytes, uint64_t data, Direction use, bool exclusive,
                          RemoteBufferShm* out) {
  const OptionalLock lock(mutex_);
  out->set_private(address, bytes);
  map(address, bytes, exclusive, out);
  if (bytes == 0 || !(out->mapped() ? lets_in_mapped_ : lets_any_in_)) return;
  const Buffer buffer{static_cast<std::byte*>(const_cast<void*>(address)), bytes, nullptr};
  const bool known = bytes / kMostGaps <= data && let_in(buffer, bytes, use == Direction::kWrite);
  if (!known && !out->mapped()) out->layout = kHiddenLayout;
}

void PeerMemory::map(const void* address, uint64_t bytes, bool exclusive, RemoteBufferShm* out) {
  if (!own_.any() || bytes < gain_.least) return;
  // X1 -> X0: the memory as it was when it was opened.
  const uint32_t epoch = words_[self_]->epoch.load_acquire();
  if (shm::is_closed(epoch)) return;
  MappedBuffer mapped;
  const heap::BufferUse use{exclusive, gain_.saves_ns(bytes)};
  if (own_.publish(address, bytes, true, use, &mapped) == Published::kFirstUse) observer_.first_use();
  if (worth_mapping(mapped, bytes)) out->set_mapped(mapped.region, mapped.fd, epoch, mapped.from, mapped.end);
}

}  // namespace zh::copy
