// The schedules of all ranks in SimGrid, a simulator of others: actors, processors and links take the place of the
// walk's queue of events. Called by walk_test.cpp; refuses to know what the walk finds.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "coll/schedule/schedule.h"
#include "model/pricing.h"

namespace zh::test {

/// What messages between nodes share.
enum class Wires : uint8_t {
  kOwn,    ///< nothing: each has o_net for itself, as in the models of the paper
  kTurns,  ///< those of a node take turns on its link, each direction for itself, as in the walk with links
  kParts,  ///< they share it at equal parts, which is how SimGrid takes a link by itself
};

/// µs until the last rank is done. Each rank is a host of one core, on which an actor does what became ready first; a
/// shared step begins when all have come, and all are there to its end; a message is a communication over a wire with
/// the latency that o_net has at 0 bytes, and a link that its bytes keep busy for the rest of o_net. (With turns the
/// link is an actor, too, which serves one message at a time.) Runs in a process of its own, since SimGrid has one
/// simulation in each. Nothing if that process failed or a step never ran.
[[nodiscard]] std::optional<double> replay(std::span<const coll::Schedule> schedules, const model::Pricing& pricing,
                                           Wires wires);

}  // namespace zh::test
