// A random storm of messages between the ranks of a test world, checked against the rules of MPI: every message arrives
// once, whole, in order (standard 3.5), whatever mix of receives, probes and cancels meets it. Used by storm_test.cpp.
#pragma once

#include "engine_support.h"

namespace zh::test {

/// Runs one rank of the storm. All ranks are given the same seed.
void run_storm(TestBootstrap& world, const StormConfig& config, uint64_t seed);

}  // namespace zh::test
