// What the measured machine says about one pair of ranks: which way, which kernel, from which size. Pure data;
// src/tune fills it from the calibrated curves, src/p2p obeys it and never measures.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "base/options.h"
#include "base/shm_types.h"
#include "copy/kernels.h"
#include "copy/mapped_memory.h"

namespace zh::tune {

struct DistanceClass;
struct Profile;

/// A threshold that no message reaches.
constexpr uint64_t kNever = uint64_t{1} << 40;

/// Of a collective's buffers, which several ranks read at once. Measured with data written before and read after, us a
/// call of two ranks: broadcast of 64 KiB near 7 mapped and 16 not, far 16 and 37; alltoall near 18 and 23; allgather
/// far 40 and 49; allreduce near 13 and 14.
constexpr copy::MappingGain kTeamGain{16 << 10, 0.03F};

/// Choices of one directed pair. All sizes in bytes. Ordered: inline_max <= eager_max.
struct PairChoice {
  uint32_t inline_max = 192;           ///< payload beside the envelope
  uint32_t eager_max = 16 << 10;       ///< one block of the payload ring, copied out by the receiver
  uint32_t eager_max_cold = 16 << 10;  ///< ... of a buffer as for single_copy_min_cold
  uint64_t single_copy_min = 2 << 20;  ///< from here on one copy by the kernel (CMA); below, cells are pipelined
  /// ... of a blocking send whose buffer no message has had lately: the kernel finds neither its pages nor its lines.
  uint64_t single_copy_min_cold = 2 << 20;
  uint64_t both_ends_min = 1 << 20;            ///< from here on both ends make that copy; below, one of them alone
  bool sender_copies = true;                   ///< ... which is the sender, while it is inside MPI; else the receiver
  copy::MappingGain mapped{512 << 10, 0.03F};  ///< of a message whose buffers peers can map
  uint32_t piped_min = 4 << 10;                ///< an eager block above this is read while it is written
  uint32_t piped_max = 256 << 10;        ///< ... and so goes a blocking send up to this whose buffer is not mapped
  uint32_t chunk_piped = 4 << 10;        ///< ... in steps of this at both its ends
  uint32_t chunk_piped_most = 16 << 10;  ///< ... and of this between them
  uint32_t chunk_cells = 32 << 10;       ///< bytes per pipelined cell
  uint32_t chunk_both = 64 << 10;        ///< most bytes claimed at a time when both ends copy mapped memory (<= 64 KiB)
  uint32_t chunk_alone = 256 << 10;      ///< ... by the kernel, or in a copy that one end makes alone
  uint32_t nontemporal_min = 1 << 30;    ///< sender writes cells with non-temporal stores from this message size on
  /// ... and the receiver its buffer: what no cache would keep until the program reads it.
  uint32_t receive_nontemporal_min = 4 << 20;
  uint32_t ring_bytes_max = 2 << 20;  ///< the payload ring may grow up to this size
};

/// Bytes claimed at a time when both ends copy a message through mapped memory. Thirds of a short one: the receiver
/// begins with one, the sender needs the time of two lines to come, and the last goes to whoever is faster (measured:
/// 16 KiB in 1.5 us by thirds, 1.8 by quarters, 2.5 by one end).
[[nodiscard]] constexpr uint64_t mapped_chunk(uint64_t bytes, const PairChoice& choice) {
  const uint64_t third = (bytes / 3 + 1023) / 1024 * 1024;
  const uint64_t least = 4 << 10;
  return third < least ? least : third < choice.chunk_both ? third : choice.chunk_both;
}

/// Bytes claimed at a time when both ends copy a message by the kernel of which `left` are not claimed: thirds of that,
/// since every claim is a call, and both ends are to finish at once.
[[nodiscard]] constexpr uint64_t kernel_chunk(uint64_t left, const PairChoice& choice) {
  return std::min<uint64_t>(std::max<uint64_t>(round_up(left / 3, 4096), 16 << 10), choice.chunk_alone);
}

/// A pair is *far* when its ranks share no cache but a socket's last one: each then works behind a cache of its own.
/// `level` is node::Level as a number, corrected by the measured time of a line (node/line_time.h).
[[nodiscard]] bool is_far(int level);

/// Choices of a pair at `level`. `profile` may be null: built-in choices.
[[nodiscard]] PairChoice choose(int level, const Profile* profile);

/// `choice` of a pair that is far or near where ranks outnumber the processors they may use. Each answer costs a turn
/// of the scheduler there, and the receiver seldom runs while the sender copies: eager further up, in one piece, from a
/// ring that stays in a cache.
[[nodiscard]] PairChoice on_shared_cpus(PairChoice choice, bool far);

/// From which size on the curves of `c` alone have one way clearly ahead of another, whatever is built in; kNever where
/// they never do, nothing where a curve is missing. Powers of two from 1 KiB to 4 MiB.
struct Crossovers {
  std::optional<uint64_t> nontemporal;  ///< two copies: non-temporal stores by the sender, against ordinary ones
  std::optional<uint64_t> kernel_both;  ///< one copy by the kernel: by both ends, against the faster end alone
  std::optional<uint64_t> mapped_both;  ///< one copy out of mapped memory: by both ends, against one alone
};
[[nodiscard]] Crossovers crossovers_of(const DistanceClass& c);

/// Whether the curves of `c` turn choices: enough jobs have found the same.
[[nodiscard]] bool in_force(const DistanceClass& c);

/// Whether `profile` holds curves in force of `level`, or too many jobs have failed to measure them: no job need try.
[[nodiscard]] bool covers(const Profile& profile, int level);

/// The thresholds of the papers (hybrid ICPP'08, section 4): one copy from 32 KiB between ranks that share a cache,
/// from 2 KiB within a socket, from 1 KiB between sockets.
[[nodiscard]] PairChoice paper_choice(int level);

/// A threshold in words: "16K"; "never" for what no message reaches.
inline std::string size_text(uint64_t bytes) { return bytes >= uint64_t{1} << 30 ? "never" : format_size(bytes); }

}  // namespace zh::tune
