// `zerohop bench coll`: collectives of the host MPIs and of zerohop side by side.
#pragma once

namespace CLI {
class App;
}

namespace zh::tools {

void add_bench_coll_command(CLI::App& bench);

}  // namespace zh::tools
