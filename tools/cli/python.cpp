// Commands that are written in Python, in python/zerohop: what tabulates and does statistics.
#include "tools/cli/commands.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "base/environment.h"
#include "os/program.h"

namespace zh::tools {
namespace {

namespace fs = std::filesystem;

/// The folder of the package in a checkout or an installation; "" where Python has to find it itself.
std::string package_folder() {
  std::error_code ignored;
  for (fs::path p = os::own_folder(); !p.empty() && p != p.root_path(); p = p.parent_path()) {
    for (const char* folder : {"python", "share/zerohop/python"}) {
      if (fs::exists(p / folder / "zerohop" / "__init__.py", ignored)) return (p / folder).string();
    }
  }
  return "";
}

/// As `python3 -m zerohop`, but what lies in the current folder is nobody's module.
constexpr const char* kStart =
    "import sys\n"
    "if sys.path[:1] == ['']: del sys.path[0]\n"
    "if sys.version_info < (3, 10): sys.exit('zerohop: ' + sys.executable + ' is older than Python 3.10, which this "
    "command needs')\n"
    "import runpy\n"
    "runpy.run_module('zerohop', run_name='__main__', alter_sys=True)";

/// Becomes Python with `<module> --zerohop <this command> <arguments>`. Returns only when that cannot be, with the exit
/// code, after a message. `arguments`: the module before them.
int become_python(const std::vector<std::string>& arguments) {
  constexpr int kCannotRun = 126;
  if (const std::string folder = package_folder(); !folder.empty()) {
    const char* before = std::getenv("PYTHONPATH");
    os::set_variable("PYTHONPATH", before != nullptr && *before != 0 ? folder + ":" + before : folder);
    os::set_variable("PYTHONDONTWRITEBYTECODE", "1");  // a package of the system is not to grow
  }
  // An environment that is not active has its Python, and what it has installed for that, beside the command.
  std::string path = os::own_folder() + "/python3";
  const Status found = os::readable(path) ? kOk : os::find_program("python3", &path);
  // By the first word Python finds its environment.
  std::vector<std::string> words = {path, "-c", kStart};
  words.insert(words.end(), arguments.begin(), arguments.end());
  const bool named = !arguments.empty() && !arguments[0].starts_with('-');
  if (named) words.insert(words.begin() + 4, {"--zerohop", os::own_folder() + "/zerohop"});
  const int error = found.ok() ? os::execute(path, words) : found.error();
  std::fprintf(stderr, "zerohop: python3: %s. This command needs it, 3.10 or newer.\n", std::strerror(error));
  return kCannotRun;
}

}  // namespace

void add_python_command(CLI::App& parent, const std::string& name, const std::string& module,
                        const std::string& about) {
  CLI::App* command = parent.add_subcommand(name, about + " (needs Python 3.10).");
  command->set_help_flag();
  command->prefix_command();
  command->callback([command, module] {
    std::vector<std::string> arguments = command->remaining();
    if (!module.empty()) arguments.insert(arguments.begin(), module);
    exit_code = become_python(arguments);
  });
}

void add_model_command(CLI::App& app) {
  CLI::App* model = app.add_subcommand("model", "How far the models of collectives are from what was measured.");
  model->require_subcommand(1);
  model->footer(
      "`zerohop schedule --profile` prices one collective, `zerohop tune --model` tells the fastest algorithms.\n\n"
      "  zerohop model report measured.json --profile here.json\n"
      "  zerohop model report --help");
  add_python_command(*model, "report", "model_report", "Models beside measurements, and their choices");
}

void add_reproduce_command(CLI::App& app) {
  add_python_command(app, "reproduce", "reproduce",
                     "The figures and tables of the five papers, measured or modelled here");
}

void add_report_commands(CLI::App& app) {
  add_python_command(app, "report", "report", "What the statistics of a job say: a page, and lines of what limited it");
  add_python_command(app, "compare", "report.compare", "What changed between the statistics of two runs");
  add_python_command(app, "python", "", "Programs beside the command: by_placement, csv, limits, plot");
}

}  // namespace zh::tools
