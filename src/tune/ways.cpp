// The measuring loops. A trip: rewrite every line of the source, stamp, move, stop the clock when the receiver holds
// all bytes. The two sides send in turn, so a side that has received knows that its last message is over as well.
#include "tune/ways.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "base/atomic.h"
#include "base/invariant.h"
#include "base/shm_types.h"
#include "copy/cma.h"
#include "os/clock.h"
#include "os/process.h"
#include "os/yield.h"
#include "tune/scratch_shm.h"

namespace zh::tune {
namespace {

constexpr uint64_t kPairPatienceNs = 5'000'000'000;
constexpr uint32_t kSpinsBeforeYield = 2000;  // the other side may need this CPU
constexpr uint32_t kLooksPerClock = 1;
constexpr uint32_t kLinesAhead = 8;

uint64_t area_bytes(const ScratchLimits& limits) {
  return round_up(limits.ring_bytes, kPage) + 2 * round_up(limits.message_bytes, kPage);
}

void read(const std::byte* p, uint64_t n) {
  for (uint64_t i = 0; i < n; i += kLineBytes) (void)*static_cast<const volatile std::byte*>(p + i);
}

void touch(std::byte* p, uint64_t n) {
  for (uint64_t i = 0; i < n; i += kPage) *static_cast<volatile std::byte*>(p + i) = std::byte{0};
}

}  // namespace

const char* to_string(Way way) {
  switch (way) {
    case Way::kInline:
      return "inline";
    case Way::kCells:
      return "cells";
    case Way::kCmaRead:
      return "cma-read";
    case Way::kCmaWrite:
      return "cma-write";
    case Way::kCmaBoth:
      return "cma-both";
    case Way::kMappedRead:
      return "mapped-read";
    case Way::kMappedBoth:
      return "mapped-both";
  }
  return "?";
}

Quartiles quartiles(std::vector<float>& values) {
  std::sort(values.begin(), values.end());
  const size_t n = values.size();
  return {values[n / 4], values[n / 2], values[n * 3 / 4]};
}

struct MeasuringPair::State {
  ScratchShm* shm = nullptr;
  ScratchLimits limits;
  int side = 0;
  bool cma = false;
  bool failed = false;
  uint64_t meetings = 0;
  uint64_t switches = 0;  ///< of this thread when the measured trips began
  pid_t self = 0;
  pid_t peer = 0;
  double ticks_us = os::ticks_per_us();
  uint64_t lines_sent = 0;
  uint64_t lines_taken = 0;
  uint64_t cells_sent = 0;
  uint64_t cells_taken = 0;
  std::unique_ptr<std::byte[]> memory;
  std::byte* source = nullptr;  ///< private
  std::byte* target = nullptr;  ///< private
  uint64_t in_pool = 0;         ///< where in both, and in the other side's, the message of this trip lies
  std::byte* ring[2] = {};
  std::byte* mapped_source[2] = {};  ///< by the sending side
  std::byte* mapped_target[2] = {};  ///< by the receiving side

  [[nodiscard]] DirectionShm& out() const { return shm->direction[side]; }
  [[nodiscard]] DirectionShm& in() const { return shm->direction[1 - side]; }

  template <typename Done>
  bool wait(Done&& done) {
    if (failed) return false;
    uint64_t until = 0;
    for (os::Backoff backoff(kSpinsBeforeYield, kLooksPerClock); !done();) {
      if (!backoff.pause()) continue;
      const uint64_t now = os::now_ns();
      if (until == 0) until = now + kPairPatienceNs;
      if (now < until) continue;
      failed = true;
      return false;
    }
    return true;
  }

  bool meet() {
    ++meetings;
    shm->meeting.arrived[side].value.store_release(meetings);  // M0 -> M1: all that this side did before the meeting
    return wait([&] {
      return shm->meeting.arrived[1 - side].value.load_acquire() >= meetings;  // M1 <- M0
    });
  }

  // --- the ways. send_* starts with fresh data in its source; receive_* returns the message's stamp, 0 on failure.

  void publish_line(uint64_t stamp, uint64_t bytes, const std::byte* payload) {
    LineShm& line = out().lines[lines_sent % kLines];
    line.stamp = stamp;
    line.bytes = bytes;
    if (payload != nullptr) copy::copy_small(line.payload, payload, bytes);
    line.seq.store_release(++lines_sent);  // TL0 -> TL1: header and payload, and a pushed buffer, before seq
  }

  const LineShm* take_line() {
    const LineShm& line = in().lines[lines_taken % kLines];
    if (!wait([&] { return line.seq.load_acquire() == lines_taken + 1; })) return nullptr;  // TL1 <- TL0
    ++lines_taken;
    return &line;
  }

  void send_cells(const Shot& shot, uint64_t stamp) {
    DirectionShm& d = out();
    const uint64_t cells = shot.ring_bytes / shot.chunk_bytes;
    for (uint64_t o = 0; o < shot.bytes; o += shot.chunk_bytes) {
      const uint64_t n = std::min<uint64_t>(shot.bytes - o, shot.chunk_bytes);
      const uint64_t i = cells_sent % cells;
      // C3 <- C2: the receiver has read the cell's last content
      if (!wait([&] { return cells_sent - d.cells_read.value.load_acquire() < cells; })) return;
      copy::copy_bytes(ring[side] + i * shot.chunk_bytes, source + in_pool + o, n, shot.store);
      d.cells[i].stamp = stamp;
      d.cells[i].value.store_release(++cells_sent);  // C0 -> C1: the cell's bytes before its number
    }
  }

  uint64_t receive_cells(const Shot& shot) {
    DirectionShm& d = in();
    const uint64_t cells = shot.ring_bytes / shot.chunk_bytes;
    uint64_t stamp = 0;
    copy::WriteAhead ahead(target + in_pool, shot.write_ahead ? shot.bytes : 0);
    const auto filled = [&](const WordShm& cell) {
      if (cell.value.load_acquire() > cells_taken) return true;  // C1 <- C0
      ahead.step(kLinesAhead);
      return false;
    };
    for (uint64_t o = 0; o < shot.bytes; o += shot.chunk_bytes) {
      const uint64_t n = std::min<uint64_t>(shot.bytes - o, shot.chunk_bytes);
      const uint64_t i = cells_taken % cells;
      if (!wait([&] { return filled(d.cells[i]); })) return 0;
      stamp = d.cells[i].stamp;
      copy::copy_bytes(target + in_pool + o, ring[1 - side] + i * shot.chunk_bytes, n, shot.receiver_store);
      d.cells_read.value.store_release(++cells_taken);  // C2 -> C3: the cell has been read
    }
    return stamp;
  }

  /// Moves [o, o + n) of the message of direction `d` by CMA; `sending` tells which end this is.
  bool move_cma(DirectionShm& d, bool sending, uint64_t o, uint64_t n) {
    uint64_t done = 0;
    if (sending) {
      const copy::Buffer there{reinterpret_cast<std::byte*>(uintptr_t{d.target} + in_pool), o + n, nullptr};
      return copy::cma_write(peer, {source + in_pool, o + n, nullptr}, there, o, n, &done).ok();
    }
    const copy::Buffer there{reinterpret_cast<std::byte*>(uintptr_t{d.source} + in_pool), o + n, nullptr};
    return copy::cma_read(peer, {target + in_pool, o + n, nullptr}, there, o, n, &done).ok();
  }

  /// Both ends claim chunks until none is left, then wait for the other's last one.
  void cooperate(DirectionShm& d, bool sending, const Shot& shot) {
    const int from = sending ? side : 1 - side;
    for (;;) {
      const uint64_t left = shot.bytes - std::min(shot.bytes, d.claim.value.load_relaxed());
      const uint64_t chunk = shot.chunk_bytes != 0 ? shot.chunk_bytes : kernel_chunk(left, {});
      const uint64_t o = d.claim.value.fetch_add_relaxed(chunk);
      if (o >= shot.bytes) break;
      const uint64_t n = std::min(shot.bytes - o, chunk);
      if (shot.way == Way::kCmaBoth) {
        if (!move_cma(d, sending, o, n)) failed = true;
      } else {
        copy::copy_bytes(mapped_target[1 - from] + o, mapped_source[from] + o, n, copy::Store::kTemporal);
      }
      d.finished.value.fetch_add_acq_rel(n);  // TF0 -> TF1: the chunk's bytes before the count
    }
    wait([&] { return d.finished.value.load_acquire() >= shot.bytes; });  // TF1 <- TF0
  }

  void send(const Shot& shot) {
    const bool mapped = shot.way == Way::kMappedRead || shot.way == Way::kMappedBoth;
    std::byte* data = mapped ? mapped_source[side] : source + in_pool;
    for (uint64_t o = 0; o < shot.bytes; o += kLineBytes) {
      data[o] = static_cast<std::byte>(static_cast<unsigned char>(data[o]) + 1);
    }
    DirectionShm& d = out();
    const uint64_t stamp = os::ticks();
    switch (shot.way) {
      case Way::kInline:
        publish_line(stamp, shot.bytes, source);
        break;
      case Way::kCells:
        send_cells(shot, stamp);
        break;
      case Way::kCmaWrite:
        if (!move_cma(d, true, 0, shot.bytes)) failed = true;
        publish_line(stamp, shot.bytes, nullptr);
        break;
      case Way::kCmaRead:
      case Way::kMappedRead:
        publish_line(stamp, shot.bytes, nullptr);
        break;
      case Way::kCmaBoth:
      case Way::kMappedBoth:
        d.claim.value.store_relaxed(0);
        d.finished.value.store_relaxed(0);
        publish_line(stamp, shot.bytes, nullptr);
        cooperate(d, true, shot);
        break;
    }
  }

  uint64_t receive(const Shot& shot) {
    if (shot.way == Way::kCells) return receive_cells(shot);
    const LineShm* line = take_line();
    if (line == nullptr) return 0;
    const uint64_t stamp = line->stamp;
    DirectionShm& d = in();
    switch (shot.way) {
      case Way::kInline:
        copy::copy_small(target, line->payload, line->bytes);
        break;
      case Way::kCmaRead:
        if (!move_cma(d, false, 0, shot.bytes)) failed = true;
        break;
      case Way::kMappedRead:
        copy::copy_bytes(target, mapped_source[1 - side], shot.bytes, copy::Store::kTemporal);
        break;
      case Way::kCmaBoth:
      case Way::kMappedBoth:
        cooperate(d, false, shot);
        break;
      case Way::kCmaWrite:
      case Way::kCells:
        break;
    }
    return stamp;
  }

  /// Exchanges both sides' results; the sum of their medians is free of a constant clock difference.
  Timing share(std::vector<float>& samples, bool good) {
    MeetingShm& m = shm->meeting;
    if (samples.empty()) {
      m.us[side] = 0;
      m.spread[side] = 0;
    } else {
      const Quartiles q = quartiles(samples);
      m.us[side] = q.median;
      m.spread[side] = q.high - q.low;
    }
    m.good[side] = good ? 1 : 0;
    m.disturbed[side] = os::thread_preemptions() - switches > samples.size() / 8 ? 1 : 0;
    if (!meet()) return {};
    Timing t;
    t.disturbed = m.disturbed[0] != 0 || m.disturbed[1] != 0;
    t.us = (m.us[0] + m.us[1]) / 2;
    t.ok = m.good[0] != 0 && m.good[1] != 0 && t.us > 0;
    t.spread = t.us > 0 ? std::max(m.spread[0], m.spread[1]) / t.us : 0;
    if (!meet()) return {};
    return t;
  }
};

uint64_t MeasuringPair::scratch_bytes(const ScratchLimits& limits) {
  return round_up(sizeof(ScratchShm), kPage) + 2 * area_bytes(limits);
}

uint64_t MeasuringPair::control_bytes() { return sizeof(ScratchShm); }

MeasuringPair::MeasuringPair(std::byte* scratch, const ScratchLimits& limits, int side, pid_t self, bool cma)
    : state_(std::make_unique<State>()) {
  State& s = *state_;
  s.shm = reinterpret_cast<ScratchShm*>(scratch);
  s.limits = limits;
  s.side = side;
  s.self = self;
  s.cma = cma;
  std::byte* area = scratch + round_up(sizeof(ScratchShm), kPage);
  for (int i = 0; i < 2; ++i) {
    s.ring[i] = area;
    s.mapped_source[i] = area + round_up(limits.ring_bytes, kPage);
    s.mapped_target[i] = s.mapped_source[i] + round_up(limits.message_bytes, kPage);
    area += area_bytes(limits);
  }
}

MeasuringPair::~MeasuringPair() = default;

bool MeasuringPair::meet() {
  State& s = *state_;
  const uint64_t bytes = round_up(std::max(s.limits.message_bytes, s.limits.pool_bytes), kPage);
  s.memory.reset(new (std::nothrow) std::byte[2 * bytes + kPage]);
  if (s.memory == nullptr) {
    s.failed = true;
    return false;
  }
  // Page aligned, as large user buffers mostly are.
  const auto start = reinterpret_cast<uintptr_t>(s.memory.get());
  s.source = s.memory.get() + (round_up(start, kPage) - start);
  s.target = s.source + bytes;
  touch(s.source, 2 * bytes);
  touch(reinterpret_cast<std::byte*>(&s.out()), sizeof(DirectionShm));
  touch(s.ring[s.side], area_bytes(s.limits));
  s.shm->meeting.pid[s.side] = s.self;
  s.out().source = reinterpret_cast<uintptr_t>(s.source);
  if (!s.meet()) return false;
  s.in().target = reinterpret_cast<uintptr_t>(s.target);
  s.peer = static_cast<pid_t>(s.shm->meeting.pid[1 - s.side]);
  return s.meet();
}

Timing MeasuringPair::measure(const Shot& shot) {
  State& s = *state_;
  const bool by_kernel = shot.way == Way::kCmaRead || shot.way == Way::kCmaWrite || shot.way == Way::kCmaBoth;
  s.in_pool = 0;
  if (shot.bytes > (shot.once ? s.limits.pool_bytes : s.limits.message_bytes) ||
      (shot.way == Way::kInline && shot.bytes > kInlineBytes) ||
      (shot.way == Way::kCells && (shot.ring_bytes > s.limits.ring_bytes || shot.ring_bytes < 2 * shot.chunk_bytes ||
                                   shot.ring_bytes / shot.chunk_bytes > kMaxCells)) ||
      (by_kernel && !s.cma) || s.failed) {
    return {};
  }
  if (!s.meet()) return {};
  if (by_kernel) {
    // A way that is refused must not look like a side that has gone.
    std::vector<float> none;
    const bool works = s.move_cma(s.out(), true, 0, 1) && s.move_cma(s.in(), false, 0, 1);
    s.share(none, works);
    if (s.shm->meeting.good[0] == 0 || s.shm->meeting.good[1] == 0) {
      s.meet();
      return {};
    }
    if (!s.meet()) return {};
  }
  if (shot.way == Way::kCells) {
    const uint64_t cells = shot.ring_bytes / shot.chunk_bytes;
    for (uint64_t i = 0; i < cells; ++i) s.out().cells[i].value.store_relaxed(0);
    s.in().cells_read.value.store_relaxed(0);
    s.cells_sent = 0;
    s.cells_taken = 0;
    if (!s.meet()) return {};
  }
  const uint64_t stride = round_up(shot.bytes, kPage) + kPairBytes;  // not all in the same sets of a cache
  const uint64_t in_turn = shot.once ? std::max<uint64_t>(1, s.limits.pool_bytes / stride) : 1;
  const uint32_t warm = shot.trips / 4 + 1;
  std::vector<float> samples;
  samples.reserve(shot.trips);
  s.switches = os::thread_preemptions();
  for (uint32_t trip = 0; trip < warm + shot.trips && !s.failed; ++trip) {
    s.in_pool = trip % in_turn * stride;
    for (int sender = 0; sender < 2; ++sender) {
      if (sender == s.side) {
        s.send(shot);
        continue;
      }
      const uint64_t stamp = s.receive(shot);
      const auto passed = static_cast<int64_t>(os::ticks() - stamp);
      if (trip >= warm) samples.push_back(static_cast<float>(static_cast<double>(passed) / s.ticks_us));
      if (shot.once) read(s.target + s.in_pool, shot.bytes);
    }
  }
  ZH_CHECK_INVARIANT(
      s.failed || shot.way != Way::kCells ? nullptr : s.out().broken_invariant(shot.ring_bytes / shot.chunk_bytes));
  return s.share(samples, !s.failed);
}

float MeasuringPair::line_ns() { return measure({.way = Way::kInline, .bytes = 8, .trips = 400}).us * 1000; }

Timing MeasuringPair::stream() {
  State& s = *state_;
  constexpr uint64_t kMessages = 4000;
  std::vector<float> samples;
  s.switches = os::thread_preemptions();
  for (int sender = 0; sender < 2; ++sender) {
    if (!s.meet()) return {};
    const uint64_t start = os::ticks();
    if (sender == s.side) {
      DirectionShm& d = s.out();
      const uint64_t first = s.lines_sent;
      for (uint64_t k = 0; k < kMessages; ++k) {
        // TS1 <- TS0: the line's last message has been read
        if (k >= kLines && !s.wait([&] { return d.lines_read.value.load_acquire() + kLines > s.lines_sent; }))
          return {};
        s.source[0] = static_cast<std::byte>(k);
        s.publish_line(start, 8, s.source);
      }
      s.wait([&] { return d.lines_read.value.load_acquire() >= first + kMessages; });  // TS1 <- TS0
    } else {
      DirectionShm& d = s.in();
      for (uint64_t k = 0; k < kMessages; ++k) {
        const LineShm* line = s.take_line();
        if (line == nullptr) return {};
        copy::copy_small(s.target, line->payload, 8);
        // Tell in steps: a store per message would cost the sender a line per message.
        if (s.lines_taken % 16 == 0 || k + 1 == kMessages) {
          d.lines_read.value.store_release(s.lines_taken);  // TS0 -> TS1: these lines have been read
        }
      }
      const auto passed = static_cast<double>(os::ticks() - start);
      samples.push_back(static_cast<float>(passed / s.ticks_us / kMessages * 1000));
    }
  }
  return s.share(samples, !s.failed);
}

bool MeasuringPair::failed() const { return state_->failed; }

}  // namespace zh::tune
