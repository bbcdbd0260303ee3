// `zerohop model report`, which is written in Python (python/zerohop/model_report.py): it asks `zerohop schedule
// --profile` and `tune --model` for all that it tells.
#include <CLI/CLI.hpp>

#include "tools/cli/commands.h"

namespace zh::tools {

void add_model_command(CLI::App& app) {
  CLI::App* model = app.add_subcommand("model", "How far the models of collectives are from what was measured.");
  model->require_subcommand(1);
  model->footer(
      "`zerohop schedule --profile` prices one collective, `zerohop tune --model` tells the fastest algorithms.\n\n"
      "  zerohop model report measured.json --profile here.json\n"
      "  zerohop model report --help");
  CLI::App* report = model->add_subcommand("report", "Models beside measurements, and their choices (needs python3).");
  report->set_help_flag();
  report->prefix_command();
  report->callback([report] { exit_code = become_python("model_report", report->remaining()); });
}

}  // namespace zh::tools
