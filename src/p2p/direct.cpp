// Other ranks' memory outside of messages: what the collectives read, write and look at where it lies. Every access is
// announced, so that a rank that forks can keep its peers away (shm/access.h); pieces are bounded, so that it need not
// wait for long.
#include <algorithm>

#include "copy/cma.h"
#include "p2p/endpoint.h"

namespace zh::p2p {

namespace {
constexpr uint64_t kPieceBytes = 256 << 10;
}

void Endpoint::describe_memory(const void* address, uint64_t bytes, bool exclusive, RemoteBufferShm* out) {
  *out = {};
  out->address = reinterpret_cast<uint64_t>(address);
  out->bytes = bytes;
  out->region_fd = -1;
  out->set_span(0, bytes);
  if (!memory_.any() || bytes < peers_[self_].choice.mapped_min) return;
  // X1 -> X0: the memory as it was when it was opened.
  const uint32_t epoch = part_->access.epoch.load_acquire();
  if (shm::is_closed(epoch)) return;
  copy::MappedBuffer mapped;
  if (memory_.publish(address, bytes, true, exclusive, &mapped) == copy::Published::kFirstUse) ++counters().first_uses;
  if (!worth_mapping(mapped, bytes, peers_[self_].choice)) return;
  out->epoch = epoch;
  out->region = mapped.region;
  out->region_fd = mapped.fd;
  out->set_span(mapped.from, mapped.end);
}

uint64_t Endpoint::read_memory(uint32_t owner, const RemoteBufferShm& remote, uint64_t from, uint64_t n, void* out) {
  return access_memory(owner, remote, from, n, static_cast<std::byte*>(out), copy::Direction::kRead);
}

uint64_t Endpoint::write_memory(uint32_t owner, const RemoteBufferShm& remote, uint64_t from, uint64_t n,
                                const void* in) {
  auto* const local = static_cast<std::byte*>(const_cast<void*>(in));
  return access_memory(owner, remote, from, n, local, copy::Direction::kWrite);
}

uint64_t Endpoint::access_memory(uint32_t owner, const RemoteBufferShm& remote, uint64_t from, uint64_t n,
                                 std::byte* local, copy::Direction direction) {
  uint64_t done = 0;
  while (done < n) {
    const uint64_t at_byte = from + done;
    uint64_t piece = std::min(kPieceBytes, n - done);
    Reach reach = reach_of(owner, remote);
    if (reach == Reach::kMapped && (at_byte < remote.from() || at_byte >= remote.end())) {
      if (at_byte < remote.from()) piece = std::min(piece, remote.from() - at_byte);
      reach = peers_[owner].cma ? Reach::kKernel : Reach::kNone;
    } else if (reach == Reach::kMapped) {
      piece = std::min(piece, remote.end() - at_byte);
    }
    if (reach == Reach::kNone) break;
    const shm::Access access(part_->access, peers_[owner].part->access, owner, epoch_for(owner, remote, reach));
    if (!access.granted()) continue;  // closed since: by what is true now
    uint64_t moved = 0;
    if (reach == Reach::kMapped) {
      moved = copy_mapped(owner, remote, at_byte, piece, local + done, direction);
      counters().collective_mapped.add(moved);
    } else {
      const copy::Buffer mine{local + done, piece, nullptr};
      const copy::Buffer theirs{reinterpret_cast<std::byte*>(remote.address) + at_byte, piece, nullptr};
      const pid_t pid = node_.pid(owner);
      const Status s = direction == copy::Direction::kRead ? copy::cma_read(pid, mine, theirs, 0, piece, &moved)
                                                           : copy::cma_write(pid, mine, theirs, 0, piece, &moved);
      if (!s.ok()) note_cma_failure(owner, s, moved, piece);
      counters().collective_cma.add(moved);
      if (!s.ok()) return done + moved;
    }
    done += moved;
  }
  return done;
}

// One run of mapped memory, at most `n` bytes; 0 if it cannot be mapped, which the caller's next look at the ways sees.
uint64_t Endpoint::copy_mapped(uint32_t owner, const RemoteBufferShm& remote, uint64_t from, uint64_t n,
                               std::byte* local, copy::Direction direction) {
  copy::RegionRef ref = remote.region;
  ref.offset += from;
  uint64_t run = 0;
  std::byte* const theirs = region_cache_.resolve(owner, node_.pid(owner), remote.region_fd, ref, n, direction, &run);
  if (theirs == nullptr) {
    note_map_failure(owner);
    return 0;
  }
  const bool reads = direction == copy::Direction::kRead;
  copy::copy_bytes(reads ? local : theirs, reads ? theirs : local, run, copy::Store::kTemporal);
  return run;
}

bool Endpoint::visit_memory(uint32_t owner, const RemoteBufferShm& remote, uint64_t from, uint64_t n,
                            void (*visit)(void*, const std::byte*), void* context) {
  if (reach_of(owner, remote) != Reach::kMapped || from < remote.from() || from + n > remote.end()) return false;
  const shm::Access access(part_->access, peers_[owner].part->access, owner, remote.epoch);
  if (!access.granted()) return false;
  copy::RegionRef ref = remote.region;
  ref.offset += from;
  uint64_t run = 0;
  const std::byte* const address =
      region_cache_.resolve(owner, node_.pid(owner), remote.region_fd, ref, n, copy::Direction::kRead, &run);
  if (address == nullptr) note_map_failure(owner);
  if (address == nullptr || run != n) return false;
  visit(context, address);
  counters().collective_mapped.add(n);
  return true;
}

}  // namespace zh::p2p
