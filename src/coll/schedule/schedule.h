// Schedule: one rank's part of a multi-step collective, as data. Builders make it (algorithms.h), Run executes it
// (run.h), check() proves it (check.h), timeline() and draw() show it (timeline.h, draw.h).
// It refuses to know addresses, datatypes, operations and how a message travels.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace zh::coll {

/// The three buffers of a rank. The input is only read, unless the call was made in place (problem.h).
enum class Place : uint8_t { kInput, kOutput, kScratch };

/// `bytes` bytes of a rank's buffer, from byte `at` on.
struct Range {
  Place place = Place::kInput;
  uint64_t at = 0;
  uint64_t bytes = 0;

  /// `n` bytes of it, from its byte `from` on.
  [[nodiscard]] Range part(uint64_t from, uint64_t n) const { return {place, at + from, n}; }
};

enum class StepKind : uint8_t {
  kCopy,         ///< to = from
  kReduceLocal,  ///< to = from op to; `from` holds the operand of the lower ranks (MPI standard 6.9.1)
  kSend,         ///< sends `from` to `peer`
  kReceive,      ///< receives into `to` from `peer`
  // Collectives of a group: of a node's ranks, by their team, or of the leaders of all nodes, by the host's collective.
  // The k-th of one rank is the k-th of the others. Where root and others do different things, each has a name.
  kBcastRoot,      ///< all others of the group get `from`
  kBcastLeaf,      ///< gets `to` from `peer`, the root
  kReduceLeaf,     ///< `from` is an operand for `peer`, the root
  kReduceRoot,     ///< to = from of the group's first rank op ... op from of its last
  kGatherLeaf,     ///< `from` is this rank's part of what `peer`, the root, gets
  kGatherRoot,     ///< `to` gets the parts of all, one behind another; `from` is the own one, of leaders in its place
  kScatterRoot,    ///< all others of the group get their parts of `from`, which lie there one behind another
  kScatterLeaf,    ///< gets `to`, its part of what `peer`, the root, has
  kBarrier,        ///< all have come; from here on all ranks do the same
  kAllreduce,      ///< all get to = from of the first op ... op from of the last
  kAllgather,      ///< `to` gets the parts of all on every rank; `from` is the own one, in its place there
  kAlltoall,       ///< each gets `to`, the parts for it of all; `from` has its own parts for all
  kReduceScatter,  ///< each gets `to`, its part of from of the first op ... op from of the last
  kScan,           ///< to = from of the first op ... op from of this rank
  kExscan,         ///< to = from of the first op ... op from of the one before; the first gets nothing
};

constexpr uint32_t kNoStep = ~uint32_t{0};

/// Tags of a schedule are below this, so that a host with the least MPI_TAG_UB (MPI standard 9.1.2: 32767) has room for
/// several collectives at once.
constexpr uint32_t kTags = 1024;
/// Of the call with that number. Tags stay positive; what has the same tag again began a million calls earlier.
[[nodiscard]] constexpr int32_t first_tag(uint64_t number) {
  return static_cast<int32_t>((number * kTags) & 0x3fffffff);
}

/// One step. It may start when all steps that it waits for are complete; nothing else orders steps.
struct Step {
  StepKind kind = StepKind::kCopy;
  Place from = Place::kInput;  ///< copy, reduce, send
  Place to = Place::kInput;    ///< copy, reduce, receive
  bool of_leaders = false;     ///< shared: by the first ranks of all nodes, in the order of nodes; else by a node's
  bool even = false;           ///< parts: all are of one size, as all know
  bool whole = false;          ///< receive: of several pieces, which are of no use where less comes
  uint32_t peer = 0;           ///< messages; shared: the root. A rank of the communicator
  uint32_t tag = 0;         ///< messages: < kTags; of two of a pair with one tag, the second waits. Shared: the place
                            ///< of `peer` in the group
  uint32_t first_part = 0;  ///< of who knows all parts: their sizes are Schedule::parts[first_part, + n_parts)
  uint32_t n_parts = 0;
  uint32_t first_wait = 0;  ///< Schedule::waits[first_wait, first_wait + n_waits)
  uint32_t n_waits = 0;
  uint64_t from_at = 0;  ///< bytes from the start of the buffer
  uint64_t to_at = 0;
  uint64_t bytes = 0;  ///< 0: a message that only says that it was sent; shared: that its rank is so far. Of parts: of
                       ///< the own one

  [[nodiscard]] bool reads() const {
    return kind != StepKind::kReceive && kind != StepKind::kBcastLeaf && kind != StepKind::kScatterLeaf &&
           kind != StepKind::kBarrier;
  }
  [[nodiscard]] bool writes() const {
    return kind != StepKind::kSend && kind != StepKind::kBcastRoot && kind != StepKind::kReduceLeaf &&
           kind != StepKind::kGatherLeaf && kind != StepKind::kScatterRoot && kind != StepKind::kBarrier;
  }
  [[nodiscard]] bool message() const { return kind == StepKind::kSend || kind == StepKind::kReceive; }
  [[nodiscard]] bool shared() const { return kind >= StepKind::kBcastRoot; }
};

struct Schedule {
  std::vector<Step> steps;      ///< a step waits for earlier ones only, so this is an order that works
  std::vector<uint32_t> waits;  ///< indices of steps
  std::vector<uint64_t> parts;  ///< bytes
  uint64_t scratch_bytes = 0;

  [[nodiscard]] std::span<const uint32_t> waits_of(const Step& step) const {
    return std::span<const uint32_t>(waits).subspan(step.first_wait, step.n_waits);
  }
  [[nodiscard]] std::span<const uint64_t> parts_of(const Step& step) const {
    return std::span<const uint64_t>(parts).subspan(step.first_part, step.n_parts);
  }
  /// Bytes of all its parts together, or of a step without parts.
  [[nodiscard]] uint64_t total(const Step& step) const {
    if (step.n_parts == 0) return step.bytes;
    uint64_t bytes = 0;
    for (const uint64_t part : parts_of(step)) bytes += part;
    return bytes;
  }
  /// Bytes from Step::from_at on that it reads; from Step::to_at on that it writes, or has where they are already.
  [[nodiscard]] uint64_t read(const Step& step) const {
    const bool all = step.kind == StepKind::kScatterRoot || step.kind == StepKind::kAlltoall ||
                     step.kind == StepKind::kReduceScatter;
    return all ? total(step) : step.bytes;
  }
  [[nodiscard]] uint64_t written(const Step& step) const {
    const bool all =
        step.kind == StepKind::kGatherRoot || step.kind == StepKind::kAllgather || step.kind == StepKind::kAlltoall;
    return all ? total(step) : step.bytes;
  }
};

}  // namespace zh::coll
