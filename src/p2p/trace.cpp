// The lines of ZEROHOP_LOG=debug about messages; see trace.h.
#include "p2p/trace.h"

#include <algorithm>
#include <bit>
#include <cinttypes>
#include <cstring>

#include "p2p/channels.h"

namespace zh::p2p {

using tune::size_text;

namespace {

const char* name_of(Path path) {
  static constexpr const char* kNames[kPaths] = {
      "inline",
      "eager (copied in and out)",
      "cells (copied in and out, piece by piece)",
      "single copy by the kernel (CMA)",
      "single copy by the kernel module",
      "single copy over mapped memory",
      "single copy within the rank",
  };
  return kNames[static_cast<uint32_t>(path)];
}

/// The bounds of a size class: [from, below).
uint64_t size_from(uint64_t bytes) { return bytes == 0 ? 0 : std::bit_floor(bytes); }
uint64_t size_below(uint64_t bytes) { return bytes == 0 ? 1 : size_from(bytes) * 2; }

const char* distance(bool is_far) { return is_far ? "far" : "near"; }

}  // namespace

void Trace::connected(uint32_t peer, const tune::PairChoice& c, bool is_far) {
  log_.print(
      LogLevel::kDebug,
      "first message to rank %d, which is %s: inline to %s, eager to %s (private buffers to %s), mapped from %s, "
      "CMA from %s",
      ranks_[peer], distance(is_far), size_text(c.inline_max).c_str(), size_text(c.eager_max).c_str(),
      size_text(std::max(c.eager_max, c.piped_max)).c_str(), size_text(c.mapped.least).c_str(),
      size_text(c.single_copy_min).c_str());
}

void Trace::sent(uint32_t peer, Path path, uint64_t bytes, const tune::PairChoice& c, bool is_far) {
  uint64_t& seen = seen_[size_t{peer} * kPaths + static_cast<uint32_t>(path)];
  const uint64_t bit = uint64_t{1} << size_class(bytes);
  if ((seen & bit) != 0) return;
  seen |= bit;
  log_.print(
      LogLevel::kDebug,
      "first of %s to %s bytes this way to rank %d: %s (%s: eager to %s, private to %s, mapped from %s, CMA from %s)",
      size_text(size_from(bytes)).c_str(), size_text(size_below(bytes)).c_str(), ranks_[peer], name_of(path),
      distance(is_far), size_text(c.eager_max).c_str(), size_text(std::max(c.eager_max, c.piped_max)).c_str(),
      size_text(c.mapped.least).c_str(), size_text(c.single_copy_min).c_str());
}

void Trace::grown(uint32_t peer, const char* ring, uint64_t size, const char* unit) const {
  log_.print(LogLevel::kDebug, "%s ring to rank %d: now %s %s", ring, ranks_[peer], size_text(size).c_str(), unit);
}

void Trace::moved(uint32_t peer, bool is_far) const {
  log_.print(LogLevel::kDebug, "rank %d is %s now, by the age of its messages", ranks_[peer], distance(is_far));
}

void Trace::lags(uint32_t peer, bool lagging) const {
  log_.print(LogLevel::kDebug,
             lagging ? "rank %d lags behind its senders: messages to 256K go through cells, which releases them"
                     : "rank %d has caught up with its senders",
             ranks_[peer]);
}

void Trace::ended_early(uint32_t peer, const Status& why, uint64_t moved, uint64_t bytes) const {
  log_.print(LogLevel::kDebug,
             "single copy with rank %d: %s (%s) after %" PRIu64 " of %" PRIu64 " bytes; the rest goes another way",
             ranks_[peer], why.what(), why.error() != 0 ? std::strerror(why.error()) : "no errno", moved, bytes);
}

void Trace::cannot_map(uint32_t peer) const {
  log_.print(LogLevel::kDebug, "memory of rank %d cannot be mapped: other ways from now on", ranks_[peer]);
}

void Trace::stays_private(const void* address, uint64_t bytes, const copy::MappedMemory::Declined& declined) {
  if (declined.times == declined_) return;
  declined_ = declined.times;
  const char* why = declined.why;
  log_.print(LogLevel::kDebug, "a buffer of %" PRIu64 " bytes at %p stays private: %s", bytes, address, why);
}

void Channels::count_lag(uint32_t peer, bool lagging) {
  ++(lagging ? counters().skew_on : counters().skew_off);
  if (trace_) trace_->lags(peer, lagging);
}

}  // namespace zh::p2p
