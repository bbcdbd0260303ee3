// `zerohop bench figure`.
#pragma once

namespace CLI {
class App;
}

namespace zh::tools {

void add_bench_figure_command(CLI::App& bench);

}  // namespace zh::tools
