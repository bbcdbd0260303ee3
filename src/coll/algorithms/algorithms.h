// The algorithms by name, and the schedules they make. Used by the engine and the shim (which run them), the schedule
// command and the tests. What an algorithm does is in the file of its family.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "coll/schedule/problem.h"
#include "coll/schedule/schedule.h"

namespace zh::coll {

class Builder;

/// The algorithm of which the host's own collective is the part between nodes. It takes the same steps for any length.
constexpr std::string_view kHostLeaders = "host-leaders";

/// Of the multicore collectives paper, section 4.2: each rank of a node combines one slice of what all have.
constexpr std::string_view kShmemParallel = "shmem-parallel";
constexpr std::string_view kShmemCyclic = "shmem-cyclic";

struct Algorithm {
  std::string_view name;
  std::string_view what;    ///< one line
  std::string_view source;  ///< where it is described
  /// Whether it serves this problem; decided by what all ranks know alike.
  bool (*fits)(const Problem& problem);
  /// Tells the steps of problem.self to the builder. For Builder's use through build().
  void (*tell)(Builder& builder, const Problem& problem);
  /// Whether it passes the vector on in pieces of Problem::chunk_bytes; others take no notice of these.
  bool (*cuts)(const Problem& problem) = [](const Problem&) { return false; };
};

/// All that are known for a collective, the plainest first.
[[nodiscard]] std::span<const Algorithm> algorithms(Collective collective);
/// Null if there is none of that name.
[[nodiscard]] const Algorithm* algorithm(Collective collective, std::string_view name);

/// The same by its last words as well ("cyclic" for "shmem-cyclic"), if they are those of one only.
[[nodiscard]] const Algorithm* algorithm_called(Collective collective, std::string_view name);

/// Whether any calls are cut by it: blocking ones at least.
[[nodiscard]] bool cuts(const Algorithm& algorithm);
/// Bytes of the pieces in which the algorithm passes the vector on, as piece_bytes(); 0: whole.
[[nodiscard]] uint64_t chunk_in_force(const Problem& problem, const Algorithm& algorithm);

/// The schedule of problem.self. Every rank builds its own, from what it knows. kInvalid: no algorithm of this name;
/// kNotSupported: it does not fit (operands in rank order, pieces that are not uniform); kNoMemory.
Status build(const Problem& problem, std::string_view name, Schedule* out);
/// Those of all ranks.
Status build(std::span<const Problem> problems, std::string_view name, std::vector<Schedule>* out);

}  // namespace zh::coll
