// See command_line.h.
#include "tools/cli/command_line.h"

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <memory>
#include <system_error>

#include "base/options.h"
#include "os/program.h"
#include "tools/cli/commands.h"
#include "tools/cli/text.h"

namespace zh::tools {
namespace {

/// The subcommand that was being read when the line was refused.
const CLI::App* deepest(const CLI::App* app) {
  for (auto inner = app->get_subcommands(); !inner.empty(); inner = app->get_subcommands()) app = inner.back();
  return app;
}

/// Whether an unknown word stands where a command should.
bool lacks_command(const CLI::App& app) {
  return deepest(&app)->get_require_subcommand_min() > 0 && app.remaining_size(true) > 0;
}

std::string path_of(const CLI::App* app) {
  return app->get_parent() == nullptr ? app->get_name() : path_of(app->get_parent()) + " " + app->get_name();
}

constexpr const char* kDescription =
    "Zerohop makes the MPI messages that never leave a node fast, under an unmodified MPI program and the MPI library\n"
    "it already uses.\n\n"
    "  mpiexec -n 8 zerohop run ./app       run a program with zerohop; any launcher\n"
    "  zerohop doctor                       what this machine permits, and what mends it\n"
    "  zerohop top                          what the ranks of a running job do, and for whom they wait\n"
    "  zerohop info                         which MPI, what is usable here and in force\n"
    "  zerohop report stats.json            what limited a job, who talked to whom, who waited\n"
    "  zerohop compare a.json b.json        what changed between two runs\n"
    "  zerohop bench p2p                    host and zerohop side by side\n"
    "  zerohop schedule bcast --nodes 4     the steps of a collective: shown, proved, drawn\n"
    "  zerohop tune                         what is known of costs here, measuring, choosing by a model\n"
    "  zerohop model report                 how far models are from what was measured\n"
    "  zerohop reproduce                    the papers' figures and tables, beside what the papers show\n";

constexpr const char* kFooter =
    "Nothing is recompiled: `zerohop run` preloads libzerohop.so and starts the program.\n"
    "ZEROHOP_ENABLE=0 switches it off. `zerohop <command> --help` tells more.";

/// Its first line is the version alone; then what this build is of.
std::string version_text() {
  std::string text = "zerohop " ZH_VERSION "\nbuilt by " ZH_COMPILER ", with " ZH_HWLOC "\nserves";
  const std::string library = find_library();
  if (library.empty()) return text + " nothing: libzerohop.so is not beside it";
  const std::string stem = library.substr(0, library.rfind(".so"));
  for (const auto& [module, abi] :
       {std::pair{"mpich", "MPICH and Intel MPI"}, {"ompi", "Open MPI"}, {"abi", "the MPI-5 standard ABI"}}) {
    if (os::readable(stem + "-" + module + ".so")) text += std::string(text.ends_with("serves") ? " " : ", ") + abi;
  }
  return text + " (" + library + ")";
}

/// An empty value, such as of a variable of the shell that is not set, would do nothing, or something else.
void refuse_empty_values(CLI::App& app) {
  const auto first = [](const std::string& value) {
    return value.empty() ? "names nothing: give a value, or leave the option out" : "";
  };
  for (CLI::Option* option : app.get_options()) {
    if (option->get_items_expected_max() > 0) option->transform(CLI::Validator(first, ""));
  }
  for (CLI::App* command : app.get_subcommands({})) refuse_empty_values(*command);
}

}  // namespace

std::string HelpFormatter::make_usage(const CLI::App* app, std::string name) const {
  std::string usage = "\n" + CLI::Formatter::make_usage(app, std::move(name));
  if (app->get_prefix_command()) usage.insert(usage.find_last_not_of('\n') + 1, " PROGRAM [ARGUMENTS...]");
  return usage;
}

std::string HelpFormatter::make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const {
  return fitted(CLI::Formatter::make_help(app, std::move(name), mode), output_columns());
}

std::string refusal(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App* command = deepest(&app);
  std::string what = error.what();
  const std::vector<std::string> unknown = app.remaining(true);
  if (lacks_command(app) && !unknown.front().starts_with('-')) {
    std::vector<std::string> names;
    for (const CLI::App* known : command->get_subcommands({})) {
      if (!known->get_group().empty()) names.push_back(known->get_name());
    }
    what = "there is no command " + shell_quoted({unknown.front()}) + ";" + nearest(unknown.front(), names) +
           " there are:";
    for (const std::string& name : names) what += " " + name;
  } else if (!unknown.empty() &&
             (lacks_command(app) || error.get_exit_code() == static_cast<int>(CLI::ExitCodes::ExtrasError))) {
    std::vector<std::string> names;
    for (const CLI::Option* known : command->get_options()) names.push_back(known->get_name());
    const std::string near = nearest(unknown.front().substr(0, unknown.front().find('=')), names);
    what = "not expected: " + shell_quoted(unknown) + (near.empty() ? "" : ";") + near;
  }
  return path_of(command) + ": " + what + "\n`" + path_of(command) + " --help` tells more.\n";
}

std::string nearest(const std::string& typed, const std::vector<std::string>& names) {
  const auto slips_to = [&](const std::string& name) { return slips(typed, name); };
  const auto found = std::ranges::min_element(names, {}, slips_to);
  return found == names.end() || slips_to(*found) == kNotNear ? "" : " did you mean " + *found + "?";
}

std::vector<std::string> arguments_of(int argc, const char* const* argv) {
  std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments.empty() || arguments[0] != "run") return arguments;
  for (size_t i = 1; i < arguments.size(); ++i) {
    const std::string& word = arguments[i];
    if (word == "--") {
      arguments.erase(arguments.begin() + static_cast<std::ptrdiff_t>(i));
      break;
    }
    if (word.empty() || word[0] != '-') break;
    constexpr std::string_view kWithValue[] = {"-o", "--option", "--library", "--hang-report", "--report", "--trace"};
    if (std::find(std::begin(kWithValue), std::end(kWithValue), word) != std::end(kWithValue)) ++i;
  }
  return arguments;
}

std::string shell_quoted(const std::vector<std::string>& words) {
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-";
  std::string out;
  for (const std::string& word : words) {
    if (!out.empty()) out += ' ';
    if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) {
      out += word;
      continue;
    }
    out += '\'';
    for (const char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
    out += '\'';
  }
  return out;
}

int command_main(int argc, const char* const* argv, std::initializer_list<AddCommand> commands) {
  CLI::App app{kDescription, "zerohop"};
  app.footer(kFooter);
  app.set_version_flag("--version", version_text);
  app.require_subcommand(1);
  app.formatter(std::make_shared<HelpFormatter>());
  app.get_formatter()->column_width(28);
  for (const AddCommand add : commands) add(app);
  refuse_empty_values(app);
  if (argc == 1) {
    std::fputs(app.help().c_str(), stdout);
    return 0;
  }
  int code = 0;
  try {
    std::vector<std::string> arguments = arguments_of(argc, argv);
    std::reverse(arguments.begin(), arguments.end());  // as CLI11 takes them
    app.parse(std::move(arguments));
    code = exit_code;
  } catch (const std::system_error&) {
    code = 1;  // what fmt throws where it cannot print
  } catch (const CLI::RuntimeError& e) {
    code = e.get_exit_code();  // a subcommand's own result
  } catch (const CLI::ParseError& e) {
    // CLI11 gives the help that is asked for behind a word that it does not know, too.
    const bool refused = e.get_exit_code() != 0 || lacks_command(app);
    if (refused) {
      std::fputs(refusal(app, e).c_str(), stderr);
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

}  // namespace zh::tools
