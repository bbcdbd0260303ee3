// RegionCache: windows of peers' regions as this process maps them, least recently used out first. The owner has put
// memory behind everything it publishes; nothing is touched here.
#include <list>
#include <new>
#include <vector>

#include "base/shm_types.h"
#include "copy/regions.h"
#include "os/segment.h"

namespace zh::copy {
namespace {

struct Mapping {
  uint32_t peer = 0;
  uint32_t region = 0;
  uint32_t generation = 0;
  uint64_t start = 0;
  uint64_t bytes = 0;
  std::byte* address = nullptr;

  [[nodiscard]] bool serves(uint32_t of, const RegionRef& ref, uint64_t n) const {
    return peer == of && region == ref.region && generation == ref.generation && ref.offset >= start &&
           ref.offset + n <= start + bytes;
  }
};

struct Opened {
  uint32_t peer = 0;
  uint32_t region = 0;
  uint32_t generation = 0;
  os::Descriptor fd;
};

}  // namespace

struct RegionCache::State {
  explicit State(uint64_t n) : budget(n) {}
  ~State() {
    for (const Mapping& m : mappings) os::unmap(m.address, m.bytes);
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  template <typename Drop>
  void drop_if(Drop&& drop) {
    for (auto it = mappings.begin(); it != mappings.end();) {
      if (drop(*it)) {
        os::unmap(it->address, it->bytes);
        mapped -= it->bytes;
        it = mappings.erase(it);
      } else {
        ++it;
      }
    }
  }

  int open(uint32_t peer, int pid, int remote_fd, const RegionRef& ref) {
    for (Opened& o : opened) {
      if (o.peer != peer || o.region != ref.region) continue;
      if (o.generation == ref.generation) return o.fd.get();
      // The peer has another region under the same number: what we hold of the old one is of no use.
      drop_if([&](const Mapping& m) { return m.peer == peer && m.region == ref.region; });
      o.fd.reset();
      if (!os::open_peer_descriptor(pid, remote_fd, &o.fd).ok()) return -1;
      o.generation = ref.generation;
      return o.fd.get();
    }
    Opened fresh{peer, ref.region, ref.generation, {}};
    if (!os::open_peer_descriptor(pid, remote_fd, &fresh.fd).ok()) return -1;
    opened.push_back(std::move(fresh));
    return opened.back().fd.get();
  }

  uint64_t budget;
  uint64_t mapped = 0;
  std::list<Mapping> mappings;  ///< most recently used first
  std::vector<Opened> opened;
};

RegionCache::RegionCache(size_t budget_bytes) : state_(std::make_unique<State>(budget_bytes)) {}
RegionCache::~RegionCache() = default;

std::byte* RegionCache::resolve(uint32_t peer, int pid, int remote_fd, const RegionRef& ref, size_t n) {
  State& s = *state_;
  if (ref.region == 0 || ref.offset + n < ref.offset) return nullptr;
  for (auto it = s.mappings.begin(); it != s.mappings.end(); ++it) {
    if (!it->serves(peer, ref, n)) continue;
    if (it != s.mappings.begin()) s.mappings.splice(s.mappings.begin(), s.mappings, it);
    return it->address + (ref.offset - it->start);
  }
  try {
    const uint64_t start = ref.offset / kWindowBytes * kWindowBytes;
    const uint64_t end = round_up(ref.offset + (n == 0 ? 1 : n), kWindowBytes);
    const uint64_t bytes = end - start;
    if (bytes > s.budget) return nullptr;
    const int fd = s.open(peer, pid, remote_fd, ref);
    if (fd < 0) return nullptr;
    // A range over several windows replaces those it covers.
    s.drop_if([&](const Mapping& m) {
      return m.peer == peer && m.region == ref.region && m.generation == ref.generation && m.start >= start &&
             m.start + m.bytes <= end;
    });
    while (s.mapped + bytes > s.budget) {
      const Mapping* oldest = &s.mappings.back();
      s.drop_if([&](const Mapping& m) { return &m == oldest; });
    }
    s.mappings.push_front({peer, ref.region, ref.generation, start, bytes, nullptr});
    if (!os::map_shared_range(fd, start, bytes, true, &s.mappings.front().address).ok()) {
      s.mappings.pop_front();
      return nullptr;
    }
    s.mapped += bytes;
    os::exclude_from_dumps(s.mappings.front().address, bytes);
    return s.mappings.front().address + (ref.offset - start);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

void RegionCache::forget(uint32_t peer) {
  state_->drop_if([&](const Mapping& m) { return m.peer == peer; });
  std::erase_if(state_->opened, [&](const Opened& o) { return o.peer == peer; });
}

uint64_t RegionCache::mapped_bytes() const { return state_->mapped; }

}  // namespace zh::copy
