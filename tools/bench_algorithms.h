// `zerohop bench algorithms`.
#pragma once

namespace CLI {
class App;
}

namespace zh::tools {

void add_bench_algorithms_command(CLI::App& bench);

}  // namespace zh::tools
