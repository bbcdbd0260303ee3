// Commands that are written in Python: what tabulates and does statistics. `zerohop reproduce` is here whole
// (python/zerohop/reproduce).
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

}  // namespace

int become_python(const std::string& module, const std::vector<std::string>& arguments) {
  constexpr int kCannotRun = 126;
  if (const std::string folder = package_folder(); !folder.empty()) {
    const char* before = std::getenv("PYTHONPATH");
    os::set_variable("PYTHONPATH", before != nullptr && *before != 0 ? folder + ":" + before : folder);
  }
  std::vector<std::string> words = {"python3", "-m", "zerohop." + module, "--zerohop", os::own_folder() + "/zerohop"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::string path;
  const Status found = os::find_program("python3", &path);
  const int error = found.ok() ? os::execute(path, words) : found.error();
  std::fprintf(stderr, "zerohop: python3: %s. This command needs it.\n", std::strerror(error));
  return kCannotRun;
}

void add_reproduce_command(CLI::App& app) {
  CLI::App* reproduce = app.add_subcommand(
      "reproduce", "The figures and tables of the five papers, measured or modelled here (needs python3).");
  reproduce->set_help_flag();
  reproduce->prefix_command();
  reproduce->callback([reproduce] { exit_code = become_python("reproduce", reproduce->remaining()); });
}

}  // namespace zh::tools
