// Runs shipped code of many ranks as fibres on a machine that is only described: each atomic operation takes the time
// that its cache line takes to come, by who had it last. Time is counted, not measured, so a run has one outcome. It
// stands in for the model checker below the instrumented zh::Atomic (tests/model/checker.h).
//
// Cost model: a core has a line, alone or shared, or gets it from the nearest core that has it. A line serves one
// request at a time: one that changes hands is busy for the whole transfer, one that is read by many for `read_ns`
// each. A store waits for its line (stores drain in order). Nothing else costs anything: no instruction, no arithmetic,
// no limit of a bus or a home agent. So figures are lower bounds, good for comparing orders of magnitude and shapes of
// trees with each other.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace zh::emulation {

/// A machine with one rank on each core, in order.
struct Machine {
  std::string name;
  uint32_t cores_per_cache;   ///< that share a last-level cache
  uint32_t cores_per_socket;  ///< a multiple
  double cache_ns;            ///< a line between cores of one cache, one way
  double socket_ns;           ///< ... of one socket
  double far_ns;              ///< ... of two sockets
  double read_ns;             ///< that a reader keeps a shared line from the next one

  [[nodiscard]] double line_ns(uint32_t a, uint32_t b) const {
    if (a / cores_per_cache == b / cores_per_cache) return cache_ns;
    return a / cores_per_socket == b / cores_per_socket ? socket_ns : far_ns;
  }
};

/// Each rank runs `body`. Returns how long the slowest took, ns. Aborts if living ranks wait for each other for ever.
double run(const Machine& machine, uint32_t ranks, const std::function<void(uint32_t rank)>& body);

// --- Inside `body`.

[[nodiscard]] uint32_t self();
[[nodiscard]] double now_ns();
/// Until `ready()`: looks again whenever a line that it has read is written, and now and then.
void wait(const std::function<bool()>& ready);
/// All ranks leave at the same moment, which costs nothing: for measuring.
void align();
/// The rank does something else for so long.
void spend(double ns);
/// The rank dies where it stands.
[[noreturn]] void die();
[[nodiscard]] bool alive(uint32_t rank);
/// Loads of plain memory, several under way at once.
void touch(const void* p, uint64_t bytes);

}  // namespace zh::emulation
