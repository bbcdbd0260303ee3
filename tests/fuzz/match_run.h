// Runs a program of the matching fuzzer on ranks of one process, and judges what came out.
#pragma once

#include <string>

#include "match_program.h"

namespace zh::test {

/// "" if every message arrived as the standard says, within `seconds`, with its own bytes.
[[nodiscard]] std::string run_program(const Program& program, uint64_t seconds);

}  // namespace zh::test
