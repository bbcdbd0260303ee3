// `zerohop bench algorithms`.
#pragma once

namespace CLI {
class App;
}

namespace zh::tools {

/// Of the JSON whose rows `zerohop model compare` reads.
inline constexpr const char* kAlgorithmsSchema = "zerohop-bench-algorithms/1";

void add_bench_algorithms_command(CLI::App& bench);

}  // namespace zh::tools
