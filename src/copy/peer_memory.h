// The memory of a node's ranks as one of them reaches it: where its own buffers can be mapped, and copies out of and
// into theirs. The order of the ways, mapped before the kernel, is decided here and nowhere else; so are the announcing
// of each access and what is remembered of a peer whose memory cannot be reached. Given to messages and collectives
// alike. It refuses to know what is copied and why.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "base/optional_lock.h"
#include "base/status.h"
#include "copy/layout.h"
#include "copy/mapped_memory.h"
#include "copy/memory_access.h"
#include "copy/region_cache.h"
#include "copy/remote_buffer.h"
#include "node/node.h"
#include "shm/access.h"

namespace zh::copy {

/// How one rank reaches a buffer.
enum class Reach : uint8_t { kNone, kSelf, kMapped, kKernel };

/// Where peers can map a buffer of this rank's, asked for once per message.
struct OwnBuffer {
  MappedBuffer mapped;
  uint32_t epoch = 0;  ///< of this rank's memory when it was asked
  bool known = false;

  void forget() {
    mapped.region.region = 0;
    known = false;
  }
};

/// Hears what PeerMemory meets, under the lock of the call that met it.
class MemoryObserver {
 public:
  /// A buffer has been used for the first time: it becomes mappable if messages go on using it.
  virtual void first_use() = 0;
  /// The kernel's copy from or to memory of `owner` ended after `moved` of `bytes` bytes.
  virtual void kernel_copy_ended(uint32_t owner, const Status& why, uint64_t moved, uint64_t bytes) = 0;
  virtual void cannot_map(uint32_t owner) = 0;
  /// A collective has moved or seen bytes of another rank's memory.
  virtual void accessed(Reach reach, uint32_t owner, uint64_t bytes) = 0;

 protected:
  ~MemoryObserver() = default;
};

struct PeerMemoryConfig {
  bool cma = true;  ///< the kernel's own copy may be used
  const RegionOwner* regions = nullptr;
  heap::SharedHeap* heap = nullptr;
};

/// One object per Rank. The members of MemoryAccess lock for themselves; all others are called by whoever serialises
/// the rank's messages, but for close().
class PeerMemory final : public MemoryAccess {
 public:
  PeerMemory(node::Node& node, const PeerMemoryConfig& config, MemoryObserver& observer);
  ~PeerMemory() = default;
  PeerMemory(const PeerMemory&) = delete;
  PeerMemory& operator=(const PeerMemory&) = delete;

  /// The words of all ranks of the node, in their order. Before anything else.
  void attach(std::vector<shm::AccessShm*> words);
  /// What MemoryAccess locks, once several threads of the rank may call.
  void lock_by(std::mutex& mutex) { mutex_ = &mutex; }
  /// Of the buffers that describe() is asked for.
  void set_gain(const MappingGain& gain) { gain_ = gain; }
  /// Uses no memory of the shared heap from now on. Before the first message only.
  void leave_heap() { own_.leave_heap(); }

  // This rank's own.

  /// Keeps peers away: when it returns, none reads or writes this process's memory directly. Any thread, one at a time;
  /// allocates nothing.
  void close();
  /// Lets them in again, to what is published from now on and, through the kernel, to all.
  void open() { shm::open_access(*words_[self_]); }
  [[nodiscard]] const MappedMemory& own() const { return own_; }
  /// Finds out where peers can map the first `bytes` of a message's buffer, unless `buffer` knows and no fork has
  /// revoked it. `saves_ns`: what that saves this end. `exact` and the answer as of MappedMemory::publish(); kMapped
  /// also if the buffer knew.
  Published look_up(const void* address, uint64_t bytes, bool exact, uint64_t saves_ns, OwnBuffer* buffer);
  /// `peer`, or with a negative one any, may copy by the kernel's module, which has to know the buffers that it is
  /// told.
  [[nodiscard]] bool lets_in(int32_t peer) const {
    return lets_any_in_ && (peer < 0 || peers_[static_cast<uint32_t>(peer)].let_in);
  }
  /// Some of those cannot map a buffer instead.
  [[nodiscard]] bool lets_in_mapped() const { return lets_in_mapped_; }
  /// Tells it the first `bytes` of a buffer, before the message; false: no peer reaches them now.
  [[nodiscard]] bool let_in(const Buffer& buffer, uint64_t bytes, bool writable);

  // Peers'.

  /// The kernel's copy works towards `peer`, as far as is known.
  [[nodiscard]] bool kernel(uint32_t peer) const { return peers_[peer].kernel; }
  /// ... by its module.
  [[nodiscard]] bool by_module(uint32_t peer) const { return peers_[peer].member != 0; }
  [[nodiscard]] bool by_cma(uint32_t peer) const { return peers_[peer].kernel && !by_module(peer); }
  /// Its memory could be mapped, or was never tried; it is alike in both directions.
  [[nodiscard]] bool maps(uint32_t peer) const { return peers_[peer].maps; }
  /// How this rank could reach a buffer of `owner` now. A hint: what the owner says may change until an access is
  /// announced.
  [[nodiscard]] Reach reach(uint32_t owner, const RemoteBufferShm& remote) const;
  /// A fork has made what was mapped void.
  [[nodiscard]] bool revoked(uint32_t owner, const RemoteBufferShm& remote) const {
    return remote.mapped() && words_[owner]->epoch.load_relaxed() != remote.epoch;
  }
  /// Announces an access by `reach`; the copies below need one that is granted. At most one exists at a time.
  [[nodiscard]] shm::Access announce(uint32_t owner, const RemoteBufferShm& remote, Reach reach) {
    return {*words_[self_], *words_[owner], owner, epoch_for(owner, remote, reach)};
  }
  /// Copies bytes [from, from + n) of a peer's buffer to the same positions of `local`, beginning by `*reach`; what is
  /// not mapped goes through the kernel. Returns how many, from the front; `*reach` is then the way of the last of
  /// them.
  [[nodiscard]] uint64_t copy_in(uint32_t owner, const RemoteBufferShm& remote, uint64_t from, uint64_t n,
                                 const Buffer& local, Reach* reach);
  /// The other way round.
  [[nodiscard]] uint64_t copy_out(uint32_t owner, const RemoteBufferShm& remote, uint64_t from, uint64_t n,
                                  const Buffer& local, Reach* reach);
  /// The peer has ended.
  void forget(uint32_t peer) { windows_.forget(peer); }
  [[nodiscard]] const WindowStats& windows() const { return windows_.stats(); }

  // MemoryAccess
  void describe(const void* address, uint64_t bytes, uint64_t data, Direction use, bool exclusive,
                RemoteBufferShm* out) override;
  [[nodiscard]] uint64_t read(uint32_t owner, const RemoteBufferShm& remote, uint64_t from, uint64_t n,
                              void* out) override;
  [[nodiscard]] uint64_t write(uint32_t owner, const RemoteBufferShm& remote, uint64_t from, uint64_t n,
                               const void* in) override;
  [[nodiscard]] bool visit(uint32_t owner, const RemoteBufferShm& remote, uint64_t from, uint64_t n, Visit look,
                           void* context) override;

 private:
  struct Peer {
    bool kernel = false;
    bool maps = false;
    bool let_in = false;
    uint32_t member = 0;  ///< its number in the module's context; 0: it is not the way
  };
  [[nodiscard]] uint32_t epoch_for(uint32_t owner, const RemoteBufferShm& remote, Reach reach) const;
  [[nodiscard]] Buffer buffer_of(const RemoteBufferShm& remote) const;
  template <typename Move>
  uint64_t move_mapped(uint32_t owner, const RemoteBufferShm& remote, uint64_t from, uint64_t n, Direction direction,
                       Move&& move);
  uint64_t move_by_kernel(uint32_t owner, const Buffer& remote, uint64_t from, uint64_t n, const Buffer& local,
                          Direction direction);
  uint64_t move_packed(uint32_t owner, const Buffer& remote, uint64_t from, uint64_t n, const Buffer& local,
                       Direction direction);
  uint64_t access(uint32_t owner, const RemoteBufferShm& remote, uint64_t from, uint64_t n, std::byte* local,
                  Direction direction);
  void note_map_failure(uint32_t owner);
  void map(const void* address, uint64_t bytes, bool exclusive, RemoteBufferShm* out);

  node::Node& node_;
  MemoryObserver& observer_;
  uint32_t self_;
  bool cma_;
  std::mutex* mutex_ = nullptr;
  MappingGain gain_;
  MappedMemory own_;
  RegionCache windows_;
  std::vector<shm::AccessShm*> words_;
  std::vector<Peer> peers_;
  bool lets_any_in_ = false;
  bool lets_in_mapped_ = false;
};

inline Reach PeerMemory::reach(uint32_t owner, const RemoteBufferShm& remote) const {
  if (!remote.reachable()) return Reach::kNone;
  if (owner == self_) return Reach::kSelf;
  const Peer& peer = peers_[owner];
  const uint32_t epoch = words_[owner]->epoch.load_relaxed();
  if (remote.mapped() && peer.maps && epoch == remote.epoch) return Reach::kMapped;
  return peer.kernel && !shm::is_closed(epoch) ? Reach::kKernel : Reach::kNone;
}

// The kernel finds a buffer by its address, whatever happened before.
inline uint32_t PeerMemory::epoch_for(uint32_t owner, const RemoteBufferShm& remote, Reach reach) const {
  if (reach == Reach::kSelf) return 0;
  return reach == Reach::kMapped ? remote.epoch : words_[owner]->epoch.load_relaxed();
}

}  // namespace zh::copy
