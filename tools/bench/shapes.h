// `zerohop bench shapes`: the strided broadcasts of the mlog_nP paper under a host MPI and zerohop side by side.
#pragma once

namespace CLI {
class App;
}

namespace zh::tools {

void add_bench_shapes_command(CLI::App& bench);

}  // namespace zh::tools
