// What the shared memory of the program's own buffers offers to the layers above it. It lives in libzerohop.so, the
// layers above in the module for the host at hand, which the two are linked apart: the module gets a pointer to this
// interface at the first MPI call. It refuses to know peers, messages and who maps what.
#pragma once

#include <cstddef>
#include <cstdint>

namespace zh::heap {

/// Names a buffer of which another process can map a part: whole pages, so that the first and the last bytes of the
/// buffer, up to a page each, may not belong to it.
struct SharedPlace {
  uint32_t region = 0;      ///< 0: nothing of it can be mapped
  uint32_t generation = 0;  ///< the memory file's (os::file_generation)
  uint64_t offset = 0;  ///< of the buffer's first byte from the region's start, whether that byte can be mapped or not
  uint64_t from = 0;    ///< bytes [from, end) of the buffer can be mapped
  uint64_t end = 0;
};

enum class Sharing : uint8_t {
  kNot,    ///< cannot be mapped
  kLater,  ///< may be mapped when messages go on using it
  kMapped
};

/// A use of a buffer by a message or a collective.
struct BufferUse {
  /// Every byte belongs to the operation, so that until it ends nobody else writes them (MPI 4.1, 3.7.2); else only
  /// what is shared already counts.
  bool exclusive = true;
  uint64_t saves_ns = 0;  ///< what it saves this process, or would, that peers can map the buffer
};

/// Someone through whom peers reach this process's memory.
class Client {
 public:
  /// When this returns, no peer reads or writes this process's memory directly, and no SharedPlace published before
  /// will be used again by one that looks later. Called in any thread with the heap locked: it must not allocate.
  virtual void keep_peers_away() = 0;
  /// The same conditions; what was published before stays unused.
  virtual void let_peers_in() = 0;
  /// In a forked child, in the thread that forked, first of all.
  virtual void in_child() = 0;
  /// Whether it shares memory of its own with peers, which copy_in_child() makes the child's.
  [[nodiscard]] virtual bool has_memory() const { return false; }
  /// In a forked child, before in_child() and while the parent waits. It must not allocate.
  virtual void copy_in_child() {}

 protected:
  ~Client() = default;
};

struct Stats {
  uint64_t shared_bytes = 0;      ///< memory of the program that peers can map now
  uint64_t adopted = 0;           ///< stretches of pages that were made so
  uint64_t adopted_bytes = 0;     ///< their bytes
  uint64_t returned_bytes = 0;    ///< of these, made private again
  uint64_t kept_blocks = 0;       ///< freed blocks that wait for the next allocation of their size
  uint64_t kept_bytes = 0;        ///< their bytes
  uint64_t reused_blocks = 0;     ///< allocations that such a block served
  uint64_t first_uses = 0;        ///< publish() that answered kLater
  uint64_t saved_ns = 0;          ///< what messages have saved by shared memory, as the pairs' curves say
  uint64_t spent_ns = 0;          ///< what making it shared and private again has cost
  uint64_t declined = 0;          ///< publish() that found memory which must stay as it is
  uint64_t declined_bytes = 0;    ///< their bytes
  const char* declined_why = "";  ///< the reason of the latest
  uint64_t forks = 0;             ///< forks that found shared memory
  uint64_t forks_copied = 0;      ///< of these, those where the child copied it
};

class SharedHeap {
 public:
  /// For a buffer that a message is about to use: fills `*place` if a part of it can be mapped, which it can once that
  /// pays. No system call, no lock where it can already.
  [[nodiscard]] virtual Sharing publish(const void* address, size_t n, const BufferUse& use, SharedPlace* place) = 0;

  /// Descriptor of a region, for peers of the same user; -1 if there is none.
  [[nodiscard]] virtual int descriptor(uint32_t region) const = 0;

  /// The host has initialised: looks for what that means (calls that were patched), and may decline. Once.
  virtual void host_started() = 0;
  /// Nothing becomes shared from now on; what is stays usable. `why` is a static text.
  virtual void decline(const char* why) = 0;
  /// Null while memory may become shared, else why it may not.
  [[nodiscard]] virtual const char* declined() const = 0;

  /// False if too many are registered.
  virtual bool add_client(Client* client) = 0;
  virtual void remove_client(Client* client) = 0;

  [[nodiscard]] virtual Stats stats() const = 0;

 protected:
  ~SharedHeap() = default;
};

}  // namespace zh::heap
