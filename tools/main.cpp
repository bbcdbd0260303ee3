// The `zerohop` command. Each subcommand is a file of its own (commands.h).
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <iostream>
#include <memory>

#include "command_line.h"
#include "commands.h"

namespace {

constexpr const char* kDescription =
    "Zerohop makes the MPI messages that never leave a node fast, under an unmodified MPI program and the MPI library "
    "it "
    "already uses.\n\n"
    "  mpiexec -n 8 zerohop run ./app       run a program with zerohop; any launcher\n"
    "  zerohop doctor                       what this machine permits, and what mends it\n"
    "  zerohop info                         variables in force and what is usable here\n"
    "  zerohop bench p2p                    host and zerohop side by side\n"
    "  zerohop schedule bcast --nodes 4     the steps of a collective: shown, proved, drawn\n"
    "  zerohop model predict bcast          what it would cost on a machine of given costs\n"
    "  zerohop tune                         what is known of copy costs here, and measuring again\n";

constexpr const char* kFooter =
    "Nothing is recompiled: `zerohop run` preloads libzerohop.so and starts the program.\n"
    "ZEROHOP_ENABLE=0 switches it off. `zerohop <command> --help` tells more.";

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{kDescription, "zerohop"};
  app.footer(kFooter);
  app.set_version_flag("--version", std::string("zerohop ") + ZH_VERSION);
  app.require_subcommand(1);
  app.formatter(std::make_shared<zh::tools::HelpFormatter>());
  app.get_formatter()->column_width(28);
  zh::tools::add_run_command(app);
  zh::tools::add_info_command(app);
  zh::tools::add_doctor_command(app);
  zh::tools::add_bench_command(app);
  zh::tools::add_schedule_command(app);
  zh::tools::add_model_command(app);
  zh::tools::add_tune_command(app);
  if (argc == 1) {
    std::fputs(app.help().c_str(), stdout);
    return 0;
  }
  int code = 0;
  try {
    std::vector<std::string> arguments = zh::tools::arguments_of(argc, argv);
    std::reverse(arguments.begin(), arguments.end());  // as CLI11 takes them
    app.parse(std::move(arguments));
    code = zh::tools::exit_code;
  } catch (const CLI::RuntimeError& e) {
    code = e.get_exit_code();  // a subcommand's own result
  } catch (const CLI::ParseError& e) {
    const bool refused = e.get_exit_code() != 0;
    if (refused) {
      std::fputs(zh::tools::refusal(app, e).c_str(), stderr);
      code = 2;
    } else {
      code = app.exit(e);  // help, version
    }
  }
  std::cout.flush();
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0 || !std::cout) {
    std::perror("zerohop: cannot write the output");
    return code != 0 ? code : 1;
  }
  return code;
}
