// `zerohop bench raw`: every way of moving bytes between two processes, without MPI.
#pragma once

namespace CLI {
class App;
}

namespace zh::tools {

/// Adds the subcommand `raw` to `zerohop bench`.
void add_bench_raw(CLI::App& bench);

}  // namespace zh::tools
