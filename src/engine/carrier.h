// What the engine needs of whoever carries bytes between nodes: the host MPI, or a test. Implemented above, called by
// Internode. It refuses to know what the bytes mean.
#pragma once

#include <cstdint>

namespace zh::engine {

/// Nonblocking messages of contiguous bytes between ranks of the world, with the order, matching and completion rules
/// of MPI point-to-point on a communicator that nobody else uses. Not called by two threads at once.
class Carrier {
 public:
  using Request = uint64_t;
  static constexpr int32_t kAnyRank = -1;
  /// What a receive got.
  struct Arrival {
    uint64_t bytes = 0;      ///< in its memory
    bool truncated = false;  ///< more had come
  };

  virtual ~Carrier() = default;
  [[nodiscard]] virtual int32_t self() const = 0;    ///< rank in the world
  [[nodiscard]] virtual int32_t tag_ub() const = 0;  ///< tags are 0 to this, at least 32767
  virtual Request send(int32_t rank, int32_t tag, const void* data, uint64_t bytes) = 0;
  /// `rank` may be kAnyRank. Of what is longer than `bytes` the rest is lost.
  virtual Request receive(int32_t rank, int32_t tag, void* data, uint64_t bytes) = 0;
  /// True once it is complete; the request is gone then, and `*arrival`, if it is asked for, says what a receive got.
  /// Also turns the carrier's progress.
  virtual bool test(Request* request, Arrival* arrival) = 0;
  /// Gives it up: afterwards its memory is not touched and the request is gone. False: a receive had its message by
  /// then, as `*arrival` says. Of a send it says nothing.
  virtual bool cancel(Request* request, Arrival* arrival) = 0;
};

}  // namespace zh::engine
