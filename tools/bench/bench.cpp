// `zerohop bench`: the parent of the measuring subcommands.
#include <CLI/CLI.hpp>

#include "tools/bench/algorithms.h"
#include "tools/bench/coll.h"
#include "tools/bench/figure.h"
#include "tools/bench/matmul.h"
#include "tools/bench/p2p.h"
#include "tools/bench/raw.h"
#include "tools/bench/shapes.h"
#include "tools/cli/commands.h"

namespace zh::tools {

void add_bench_command(CLI::App& app) {
  CLI::App* bench = app.add_subcommand(
      "bench",
      "Measure: the machine's limit (raw), host MPI and zerohop side by side (p2p, coll, matmul), algorithms,\n"
      "the mlog_nP paper's shapes, the papers' figures.");
  bench->require_subcommand(1);
  add_bench_p2p_command(*bench);
  add_bench_coll_command(*bench);
  add_bench_matmul_command(*bench);
  add_bench_algorithms_command(*bench);
  add_bench_shapes_command(*bench);
  add_bench_figure_command(*bench);
  add_bench_raw(*bench);
}

}  // namespace zh::tools
