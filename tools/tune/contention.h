// What it costs that several ranks of a node read one rank's memory at once: measured with processes of this command,
// each on a processor of its own. Called by `zerohop tune --json`; no choice of a job depends on it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/machine_facts.h"

namespace zh::tools {

/// Readers 1, 2, 4 ... and as many as there are processors; the owner of the memory sleeps meanwhile, on the last one.
/// By way (mapped memory, through the kernel where that works) and size. Empty without two processors or memory. Forks.
/// Some 10 ms for each number of readers.
[[nodiscard]] std::vector<model::Contention> measure_contention(std::span<const uint32_t> processors);

/// What repetitions of the readers' times say, µs of the slowest reader: medians, and whether they scatter so much that
/// another run may find a quarter more or less. `us[i]` belongs to `readers[i]`; none is empty.
[[nodiscard]] model::Contention contention_of(const char* way, uint64_t bytes, std::span<const uint32_t> readers,
                                              std::vector<std::vector<double>> us);

}  // namespace zh::tools
