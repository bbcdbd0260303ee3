// Times every way of moving n bytes between two processes: the machine's limit, without messages or matching.
// Shared by the calibration and `zerohop bench raw`. Two sides (processes or threads) call the same functions in the
// same order over one piece of shared memory; each trip carries fresh data and its own time stamp.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "copy/kernels.h"

namespace zh::tune {

enum class Way : uint8_t {
  kInline,      ///< payload beside the header, one publish (<= kInlineBytes)
  kCells,       ///< two copies, pipelined through a ring of cells
  kCmaRead,     ///< one copy by the receiver through the kernel
  kCmaWrite,    ///< one copy by the sender
  kCmaBoth,     ///< both, claiming chunks
  kMappedRead,  ///< one copy by the receiver from the sender's mapped buffer
  kMappedBoth,  ///< both, claiming chunks
};
[[nodiscard]] const char* to_string(Way way);

constexpr uint32_t kInlineBytes = 192;

/// One thing to measure.
struct Shot {
  Way way = Way::kInline;
  uint64_t bytes = 8;
  copy::Store store = copy::Store::kTemporal;           ///< kCells: the sender's stores ...
  copy::Store receiver_store = copy::Store::kTemporal;  ///< ... and the receiver's
  bool write_ahead = false;                             ///< kCells: who waits asks for the lines of its buffer
  bool once = false;  ///< private buffers of a pool, one after the other, which the receiver reads behind the clock
  uint32_t ring_bytes = 512 << 10;  ///< kCells
  uint32_t chunk_bytes = 16 << 10;  ///< kCells: cell; k*Both: bytes claimed at a time, 0: as kernel_chunk() has it
  uint32_t trips = 50;              ///< measured trips in each direction
};

/// One-way time in microseconds: mean over the two directions of each one's median (this cancels a constant difference
/// of the two CPUs' counters); spread = the larger interquartile range / median.
struct Timing {
  float us = 0;
  float spread = 0;
  bool ok = false;         ///< false: the way does not work here, or the other side has gone
  bool disturbed = false;  ///< a side lost its processor more often than medians bear: in an eighth of the trips
};

/// Median and quartiles; reorders `values`. Not empty.
struct Quartiles {
  float low, median, high;
};
[[nodiscard]] Quartiles quartiles(std::vector<float>& values);

struct ScratchLimits {
  uint32_t ring_bytes = 512 << 10;     ///< largest ring
  uint64_t message_bytes = 256 << 10;  ///< largest message
  uint64_t pool_bytes = 0;             ///< of private buffers, each way, that are used once; 0: no such shots
};

class MeasuringPair {
 public:
  /// Bytes of shared memory that two sides need (zeroed, page aligned, backed).
  [[nodiscard]] static uint64_t scratch_bytes(const ScratchLimits& limits);
  /// Leading bytes of it that must be zero again before two other sides use it.
  [[nodiscard]] static uint64_t control_bytes();

  /// `side` is 0 or 1. `cma`: process_vm_* may be tried towards `peer`.
  MeasuringPair(std::byte* scratch, const ScratchLimits& limits, int side, pid_t self, bool cma);
  ~MeasuringPair();
  MeasuringPair(const MeasuringPair&) = delete;
  MeasuringPair& operator=(const MeasuringPair&) = delete;

  /// Touches this side's memory and meets the other side. False if it does not come within about 5 s.
  bool meet();
  /// Both sides call it with the same shot and get the same result.
  Timing measure(const Shot& shot);
  /// One-way time of a cache line in nanoseconds.
  float line_ns();
  /// Nanoseconds per 8-byte message in a stream of lines, one direction after the other.
  Timing stream();
  [[nodiscard]] bool failed() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace zh::tune
