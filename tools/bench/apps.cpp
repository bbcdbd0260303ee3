// `zerohop bench apps`, which is written in Python (python/zerohop/apps.py): it starts whole programs and does
// statistics.
#include <CLI/CLI.hpp>

#include "tools/bench/command.h"
#include "tools/cli/commands.h"

namespace zh::tools {

void add_bench_apps_command(CLI::App& bench) {
  CLI::App* c = bench.add_subcommand(
      "apps", "What applications gain and lose: NAS, LAMMPS, HPCC, IMB and others (needs python3).");
  c->set_help_flag();
  c->prefix_command();
  c->callback([c] { exit_code = become_python("apps", c->remaining()); });
}

}  // namespace zh::tools
