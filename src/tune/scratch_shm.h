// The memory that a measured pair shares: one line or cell after the other in each direction, and where the two sides
// meet. Written and read by ways.cpp; it refuses to know what is measured.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/atomic.h"
#include "base/shm_types.h"
#include "tune/ways.h"

namespace zh::tune {

constexpr uint32_t kLines = 64;
constexpr uint32_t kMaxCells = 4096;

/// Writers: the sender of the direction. Readers: the receiver. Invariant: payload and stamp belong to message `seq`.
/// Wrap: seq is free-running, 64 bits. Crash: the other side gives up after a time limit.
struct alignas(kPairBytes) LineShm {
  Atomic<uint64_t> seq;
  uint64_t stamp;
  uint64_t bytes;
  std::byte payload[kInlineBytes];
};
static_assert(sizeof(LineShm) == 256 && kShmSafe<LineShm>);

/// A counter with a pair of lines to itself, and a stamp that it publishes. Writers, readers: as its user says below.
/// Wrap: free-running or set to 0 between two meetings. Crash: as LineShm.
struct alignas(kPairBytes) WordShm {
  Atomic<uint64_t> value;
  uint64_t stamp;
};
static_assert(sizeof(WordShm) == kPairBytes && kShmSafe<WordShm>);

/// One direction. Writers: `lines`, `cells` (value = messages put into the cell's place), `source` the sender;
/// `lines_read`, `cells_read`, `target` the receiver; `claim`, `finished` both, by fetch_add, reset by the sender
/// before it publishes. Readers: the other side. Invariant: a message lies in the line, or cell, of its number; lines
/// and cells that were read were written, and the cells that were not are at most the ring. Wrap: free-running. Crash:
/// as LineShm.
struct DirectionShm {
  LineShm lines[kLines];
  WordShm lines_read;
  WordShm cells_read;
  WordShm claim;
  WordShm finished;
  WordShm cells[kMaxCells];
  uint64_t source;  ///< address of the sender's private buffer
  uint64_t target;  ///< address of the receiver's private buffer

  /// For either side. `ring`: cells of the ring that is measured now, 0 if none is.
  [[nodiscard]] const char* broken_invariant(uint64_t ring) const;
};
static_assert(kShmSafe<DirectionShm>);

/// Writers: word i side i. Readers: the other side. Invariant: `arrived` counts the side's meetings, so it only
/// rises, which memory as it is at one moment does not tell. Wrap: 64 bits. Crash: as LineShm.
struct MeetingShm {
  WordShm arrived[2];
  int64_t pid[2];
  float us[2];
  float spread[2];
  uint32_t good[2];
  uint32_t disturbed[2];
};

struct ScratchShm {
  MeetingShm meeting;
  DirectionShm direction[2];
};
static_assert(kShmSafe<ScratchShm>);

inline const char* DirectionShm::broken_invariant(uint64_t ring) const {
  // What was read before what was written, which may grow meanwhile.
  const uint64_t read_lines = lines_read.value.load_acquire();  // TS1 <- TS0: the lines
  const uint64_t read_cells = cells_read.value.load_acquire();  // C3 <- C2: the cells
  uint64_t lines_written = 0;
  for (uint32_t i = 0; i < kLines; ++i) {
    const uint64_t seq = lines[i].seq.load_relaxed();
    if (seq != 0 && (seq - 1) % kLines != i) return "a message lies in the line of its number";
    lines_written = std::max(lines_written, seq);
  }
  if (read_lines > lines_written) return "lines that were read were written";
  uint64_t cells_written = 0;
  for (uint64_t i = 0; i < ring; ++i) {
    const uint64_t number = cells[i].value.load_relaxed();
    if (number != 0 && (number - 1) % ring != i) return "a piece lies in the cell of its number";
    cells_written = std::max(cells_written, number);
  }
  if (ring != 0 && read_cells > cells_written) return "cells that were read were written";
  return ring != 0 && cells_written - read_cells > ring ? "the cells in use are at most the ring" : nullptr;
}

}  // namespace zh::tune
