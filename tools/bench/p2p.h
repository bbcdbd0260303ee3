// `zerohop bench p2p`: rounds of short launches, host MPIs and zerohop in rotating order, judged against the limits.
#pragma once

namespace CLI {
class App;
}

namespace zh::tools {

/// Adds the subcommand `p2p` to `zerohop bench`.
void add_bench_p2p_command(CLI::App& bench);

}  // namespace zh::tools
