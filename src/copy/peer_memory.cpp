// How a rank reaches its peers' memory. Its own is in own_memory.cpp.
#include "copy/peer_memory.h"

#include <algorithm>
#include <utility>

#include "copy/cma.h"
#include "copy/kernels.h"
#include "os/affinity.h"

namespace zh::copy {

namespace {
/// Address space for windows, not memory: a few of each peer's, so that a turn through all of them gives up none.
uint64_t window_budget(uint32_t ranks) {
  constexpr uint64_t kLeast = uint64_t{8} << 30;
  constexpr uint64_t kWindowsOfAPeer = 4;
  const uint64_t wanted = std::max(kLeast, ranks * kWindowsOfAPeer * kWindowBytes);
  return std::min(wanted, std::max(kLeast, os::address_space_left() / 4));
}

constexpr uint64_t kPackedBytes = 16 << 10;  // at once, on the stack
constexpr uint64_t kPieceBytes = 256 << 10;  // of one access, so that a rank that forks need not wait for long
}  // namespace

PeerMemory::PeerMemory(node::Node& node, const PeerMemoryConfig& config, MemoryObserver& observer)
    : node_(node),
      observer_(observer),
      self_(node.self()),
      cma_(config.cma),
      own_(config.regions, config.heap),
      windows_(window_budget(node.size())) {}

void PeerMemory::attach(std::vector<shm::AccessShm*> words) {
  words_ = std::move(words);
  peers_.resize(words_.size());
  for (uint32_t i = 0; i < peers_.size(); ++i) {
    peers_[i].member = node_.module_member(i);
    peers_[i].kernel = peers_[i].member != 0 || (cma_ && node_.cma(i));
    peers_[i].maps = node_.knows_pid(i);
    peers_[i].let_in = node_.lets_in(i);
    lets_any_in_ = lets_any_in_ || peers_[i].let_in;
    lets_in_mapped_ = lets_in_mapped_ || (peers_[i].let_in && !peers_[i].maps);
  }
}

Buffer PeerMemory::buffer_of(const RemoteBufferShm& remote) const {
  return {reinterpret_cast<std::byte*>(remote.address), remote.bytes,
          remote.layout != kNoOffset ? at<LayoutShm>(node_.base(), remote.layout) : nullptr};
}

void PeerMemory::note_map_failure(uint32_t owner) {
  peers_[owner].maps = false;
  lets_in_mapped_ = lets_in_mapped_ || peers_[owner].let_in;
  observer_.cannot_map(owner);
}

// `move(address, from, n)`, piece by piece as the windows lie. Returns how many bytes were moved.
template <typename Move>
uint64_t PeerMemory::move_mapped(uint32_t owner, const RemoteBufferShm& remote, uint64_t from, uint64_t n,
                                 Direction direction, Move&& move) {
  uint64_t done = 0;
  while (done < n) {
    RegionRef ref = remote.region;
    ref.offset += from + done;
    uint64_t run = 0;
    std::byte* const address =
        windows_.resolve(owner, node_.pid(owner), remote.region_fd, ref, n - done, direction, &run);
    if (address == nullptr) {
      note_map_failure(owner);
      break;
    }
    move(address, from + done, run);
    done += run;
  }
  return done;
}

uint64_t PeerMemory::move_by_kernel(uint32_t owner, const Buffer& remote, uint64_t from, uint64_t n,
                                    const Buffer& local, Direction direction) {
  if (local.layout != nullptr && local.layout->short_blocks() && by_cma(owner)) {
    return move_packed(owner, remote, from, n, local, direction);
  }
  uint64_t moved = 0;
  const pid_t pid = node_.pid(owner);
  const bool reads = direction == Direction::kRead;
  Status s = kOk;
  if (const uint32_t member = peers_[owner].member; member != 0) {
    const auto move = [&](const iovec* here, size_t n_here, const iovec* there, size_t n_there) {
      os::CopyModule& module = *node_.module();
      return reads ? module.read(member, here, n_here, there, n_there)
                   : module.write(member, here, n_here, there, n_there);
    };
    s = transfer(move, "the kernel module: copy a peer's buffer", local, remote, from, n, &moved);
  } else {
    s = reads ? cma_read(pid, local, remote, from, n, &moved) : cma_write(pid, local, remote, from, n, &moved);
  }
  if (!s.ok()) {
    if (s.code() == Code::kNotPermitted) peers_[owner].kernel = false;
    observer_.kernel_copy_ended(owner, s, moved, n);
  }
  return moved;
}

// CMA looks up the pages of each block, so short ones go packed, through memory of this rank.
uint64_t PeerMemory::move_packed(uint32_t owner, const Buffer& remote, uint64_t from, uint64_t n, const Buffer& local,
                                 Direction direction) {
  alignas(kLineBytes) std::byte packed[kPackedBytes];
  const bool reads = direction == Direction::kRead;
  uint64_t done = 0;
  for (uint64_t piece = 0; done < n; done += piece) {
    const uint64_t at_byte = from + done;
    piece = std::min(kPackedBytes, n - done);
    if (!reads) pack(local, at_byte, piece, packed, Store::kTemporal);
    // As if the bytes before the piece were there, too.
    const Buffer whole{reinterpret_cast<std::byte*>(reinterpret_cast<uintptr_t>(packed) - at_byte), at_byte + piece,
                       nullptr};
    const uint64_t moved = move_by_kernel(owner, remote, at_byte, piece, whole, direction);
    if (reads) unpack(local, at_byte, moved, packed, Store::kTemporal);
    if (moved != piece) return done + moved;
  }
  return done;
}

uint64_t PeerMemory::copy_in(uint32_t owner, const RemoteBufferShm& remote, uint64_t from, uint64_t n,
                             const Buffer& local, Reach* reach) {
  uint64_t done = 0;
  if (*reach == Reach::kSelf) {
    copy_range(local, buffer_of(remote), from, n, Store::kTemporal);
    return n;
  }
  if (*reach == Reach::kMapped) {
    done = move_mapped(owner, remote, from, n, Direction::kRead,
                       [&local](const std::byte* address, uint64_t at_byte, uint64_t bytes) {
                         unpack(local, at_byte, bytes, address, Store::kTemporal);
                       });
  }
  if (done == n || !peers_[owner].kernel) return done;
  *reach = Reach::kKernel;
  return done + move_by_kernel(owner, buffer_of(remote), from + done, n - done, local, Direction::kRead);
}

uint64_t PeerMemory::copy_out(uint32_t owner, const RemoteBufferShm& remote, uint64_t from, uint64_t n,
                              const Buffer& local, Reach* reach) {
  uint64_t done = 0;
  if (*reach == Reach::kMapped) {
    done = move_mapped(owner, remote, from, n, Direction::kWrite,
                       [&local](std::byte* address, uint64_t at_byte, uint64_t bytes) {
                         pack(local, at_byte, bytes, address, Store::kTemporal);
                       });
  }
  if (done == n || !peers_[owner].kernel) return done;
  *reach = Reach::kKernel;
  return done + move_by_kernel(owner, buffer_of(remote), from + done, n - done, local, Direction::kWrite);
}

uint64_t PeerMemory::read(uint32_t owner, const RemoteBufferShm& remote, uint64_t from, uint64_t n, void* out) {
  return access(owner, remote, from, n, static_cast<std::byte*>(out), Direction::kRead);
}

uint64_t PeerMemory::write(uint32_t owner, const RemoteBufferShm& remote, uint64_t from, uint64_t n, const void* in) {
  return access(owner, remote, from, n, static_cast<std::byte*>(const_cast<void*>(in)), Direction::kWrite);
}

uint64_t PeerMemory::access(uint32_t owner, const RemoteBufferShm& remote, uint64_t from, uint64_t n, std::byte* local,
                            Direction direction) {
  const OptionalLock lock(mutex_);
  const bool reads = direction == Direction::kRead;
  uint64_t done = 0;
  while (done < n) {
    const uint64_t at_byte = from + done;
    uint64_t piece = std::min(kPieceBytes, n - done);
    Reach way = reach(owner, remote);
    if (way == Reach::kMapped && (at_byte < remote.from() || at_byte >= remote.end())) {
      if (at_byte < remote.from()) piece = std::min(piece, remote.from() - at_byte);
      way = peers_[owner].kernel ? Reach::kKernel : Reach::kNone;
    } else if (way == Reach::kMapped) {
      piece = std::min(piece, remote.end() - at_byte);
    }
    if (way == Reach::kNone) break;
    const shm::Access announced = announce(owner, remote, way);
    if (!announced.granted()) continue;  // closed since: by what is true now
    std::byte* const here = local + done;
    uint64_t moved = 0;
    if (way == Reach::kMapped) {
      moved = move_mapped(owner, remote, at_byte, piece, direction, [&](std::byte* theirs, uint64_t at, uint64_t run) {
        std::byte* const mine = here + (at - at_byte);
        copy_bytes(reads ? mine : theirs, reads ? theirs : mine, run, Store::kTemporal);
      });
    } else {
      const Buffer theirs{reinterpret_cast<std::byte*>(remote.address) + at_byte, piece, nullptr};
      moved = move_by_kernel(owner, theirs, 0, piece, {here, piece, nullptr}, direction);
    }
    observer_.accessed(way, owner, moved);
    done += moved;
    if (way == Reach::kKernel && moved != piece) break;
  }
  return done;
}

bool PeerMemory::visit(uint32_t owner, const RemoteBufferShm& remote, uint64_t from, uint64_t n, Visit look,
                       void* context) {
  const OptionalLock lock(mutex_);
  if (reach(owner, remote) != Reach::kMapped || from < remote.from() || from + n > remote.end()) return false;
  const shm::Access announced = announce(owner, remote, Reach::kMapped);
  if (!announced.granted()) return false;
  RegionRef ref = remote.region;
  ref.offset += from;
  uint64_t run = 0;
  const std::byte* const address =
      windows_.resolve(owner, node_.pid(owner), remote.region_fd, ref, n, Direction::kRead, &run);
  if (address == nullptr) note_map_failure(owner);
  if (address == nullptr || run != n) return false;
  look(context, address);
  observer_.accessed(Reach::kMapped, owner, n);
  return true;
}

}  // namespace zh::copy
