// Two processes over one piece of scratch memory, as the measuring loops of src/tune/ways.h want them. Called by
// `zerohop bench raw` and `bench breakdown`; knows nothing of what is measured.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tune/ways.h"

namespace zh::tools {

/// Two CPUs for `zerohop <command>`: those given, or the first that this process may use. 0, or the exit code after a
/// message.
int choose_cpus(const std::string& command, std::vector<int>* cpus);

/// Binds this process to one CPU.
void bind_to_cpu(uint32_t cpu);

/// Runs `part` as side 0 here and as side 1 in a forked process. The memory lies near the CPU that the caller is on.
/// False, after a message, where `part` of side 0 says that it did not come to its end, or nothing could be started.
[[nodiscard]] bool on_both_sides(const tune::ScratchLimits& limits,
                                 const std::function<bool(tune::MeasuringPair& pair, int side)>& part);

}  // namespace zh::tools
