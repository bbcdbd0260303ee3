// `zerohop run`: preloads libzerohop.so into a program and becomes that program. Works behind any launcher, as it
// starts no process that the program or the launcher could see, and waits for none.
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/options.h"
#include "os/elf_file.h"
#include "os/own_file.h"
#include "os/plain_path.h"
#include "os/program.h"
#include "tools/cli/command_line.h"
#include "tools/cli/commands.h"
#include "tools/cli/inputs.h"
#include "tools/cli/preload.h"

namespace zh::tools {
namespace {

constexpr int kUsage = 2;
constexpr int kCannotRun = 126;
constexpr int kNotFound = 127;

struct RunArguments {
  std::vector<std::string> options;
  std::string library;
  std::string hang_report;
  std::string report;  ///< the page
  std::string trace;   ///< the file of timelines
  bool dry = false;
};

/// Only one rank of a job speaks.
void run_says(const std::string& text) {
  if (launched_rank() == 0) std::fprintf(stderr, "zerohop run: %s\n", text.c_str());
}

std::string config_name() { return option_table()[static_cast<size_t>(Opt::kConfig)].name; }

/// Those of the command line and of the environment; false (after a message) if one of the former is wrong.
bool read_options(const std::vector<std::string>& given, Options* out) {
  Options& options = *out;
  for (const std::string& text : given) {
    const size_t equal = text.find('=');
    if (equal == std::string::npos) {
      run_says("--option wants NAME=VALUE, not \"" + text + "\"");
      return false;
    }
    if (!options.set(text.substr(0, equal), text.substr(equal + 1), Source::kCommandLine).ok()) {
      run_says(options.complaint());
      return false;
    }
  }
  if (options.source(Opt::kConfig) == Source::kCommandLine)
    os::set_variable(config_name(), options.get_text(Opt::kConfig));
  options.read_environment(environ);  // complaints are rank 0's, at MPI_Init
  return true;
}

/// Sets the options as environment, and those of ZEROHOP_CONFIG that would be read too late; false (after a message) if
/// one cannot be.
bool export_options(const Options& options) {
  std::string config = options.get_text(Opt::kConfig);
  for (size_t i = 0; i < option_table().size(); ++i) {
    const OptionSpec& spec = option_table()[i];
    const auto option = static_cast<Opt>(i);
    const std::string& value = options.get_text(option);
    const bool mine = options.source(option) == Source::kCommandLine;
    const bool read_at_load = option == Opt::kHeap || option == Opt::kEnable;
    if (is_variable(spec)) {
      if (mine || (read_at_load && options.source(option) == Source::kConfig)) os::set_variable(spec.name, value);
    } else if (mine && value.find_first_of(",;") != std::string::npos) {
      run_says(spec.name + ("=" + value) + ": only a file that ZEROHOP_CONFIG names can hold a value with , or ;");
      return false;
    } else if (mine) {
      config = with_setting(config, spec.name, value);
    }
  }
  if (!config.empty()) os::set_variable(config_name(), config);
  return true;
}

/// The library under a name that LD_PRELOAD can hold; "" (after a message) if there is none.
std::string plain_name(const std::string& library) {
  if (os::is_plain_path(library)) return library;
  const size_t slash = library.rfind('/');
  const std::string folder = library.substr(0, slash);
  std::string link;
  if (slash == std::string::npos || !os::is_plain_path(library.substr(slash))) {
    run_says(library + ": LD_PRELOAD cannot hold a file name with a blank, a colon or a $");
  } else if (const Status s = os::link_plain_path(folder, &link); !s.ok()) {
    run_says(library +
             ": LD_PRELOAD cannot hold a blank, a colon or a $, and no link to the folder could be made in TMPDIR or "
             "/tmp: " +
             std::strerror(s.error()));
  } else {
    return link + library.substr(slash);
  }
  return "";
}

/// The library to preload, as LD_PRELOAD can name it; "" (after a message) if there is none.
std::string usable_library(const std::string& wanted) {
  const std::string library = wanted.empty() ? find_library() : wanted;
  const auto refuse_it = [](const std::string& why) {
    run_says(why + "; give its place with --library");
    return "";
  };
  if (library.empty()) return refuse_it("libzerohop.so is not beside this command (../lib)");
  if (!os::readable(library)) return refuse_it("libzerohop.so is not at " + library);
  const os::ElfFile file = os::read_elf(library);
  if (!file.same_machine || !file.shared || !file.loader.empty()) return refuse_it(library + " is no shared library");
  return plain_name(library);
}

/// One for the ranks of this machine.
void start_watcher(const std::string& patience) {
  if (launched_local_rank() != 0) return;
  const std::string program = os::own_folder() + "/zerohop-tools";
  const std::string pid = std::to_string(getpid());
  const int error = os::start_apart(program, {program, "top", "--hang-report", patience, "--pid", pid});
  if (error != 0) run_says("there will be no --hang-report: " + program + ": " + std::strerror(error));
}

/// Where the statistics of a report or trace are to lie, if the user has not said: beside the page, else the trace.
std::string beside(const RunArguments& arguments) {
  namespace fs = std::filesystem;
  std::string file;
  if (!arguments.report.empty()) file = fs::path(arguments.report).replace_extension(".json").string();
  if (!file.empty() && !are_one_file(file, arguments.trace)) return file;
  file = fs::path(arguments.trace).replace_extension(".stats.json").string();
  for (size_t at = 0; (at = file.find('%', at)) != std::string::npos; at += 2) file.insert(at, 1, '%');
  return file;
}

/// Has the statistics of a report or trace written. False (after a message) if one file would be two things.
bool ask_for_files(RunArguments& arguments, Options* options) {
  const std::string no_trace = arguments.trace.empty() ? "" : wrong_output(arguments.trace);
  if (!no_trace.empty()) {
    run_says("there will be no --trace " + arguments.trace + ": " + no_trace);
    arguments.trace.clear();
  }
  if (arguments.report.empty() && arguments.trace.empty()) return true;
  std::string file = options->get_text(Opt::kStats);
  if (file.empty()) file = beside(arguments);
  std::string why;
  if (!arguments.report.empty() && file.find('%') != std::string::npos) {
    why = "--report wants statistics in one file, without a %: " + file;
  } else if (are_one_file(file, arguments.trace)) {
    why = "the statistics would be in the file of --trace: " + file;
  } else if (are_one_file(arguments.report, arguments.trace)) {
    why = "the page would be in the file of --trace: " + arguments.trace;
  } else if (are_one_file(arguments.report, file)) {
    why = "the page would be in the file of the statistics: " + file + " (name it .html, or give -o STATS=FILE)";
  } else if (arguments.trace.find_first_of(",;") != std::string::npos) {
    why = "--trace: a setting cannot hold a , or ; of a name: " + arguments.trace;
  }
  if (!why.empty()) run_says(why);
  return why.empty() && options->set("ZEROHOP_STATS", file, Source::kCommandLine).ok() &&
         options->set("stats_time", "1", Source::kCommandLine).ok() &&
         (arguments.trace.empty() || options->set("trace", arguments.trace, Source::kCommandLine).ok());
}

/// Why the file is not to be written over, and the cure; "" if it may be, or if its name is known at MPI_Init only.
std::string loss(const std::string& what, const std::string& path, os::FileForm form, const std::string& program) {
  if (path.empty() || (form == os::FileForm::kStatistics && path.find('%') != std::string::npos)) return "";
  std::error_code ignored;
  const bool is_program = std::filesystem::equivalent(path, program, ignored);
  if (!is_program && os::may_overwrite(path, form)) return "";
  return what + " would replace " + path + (is_program ? ", the program" : ", a file that zerohop has not written");
}

/// False (after a message) if a file of the user's would be lost.
bool nothing_is_lost(const RunArguments& arguments, const Options& options, const std::string& program) {
  const std::string statistics = options.get_text(Opt::kStats);
  std::string why = loss("--report", arguments.report, os::FileForm::kPage, program);
  if (why.empty())
    why = loss("the timeline (--trace)", options.get_text(Opt::kTrace), os::FileForm::kTimeline, program);
  if (!why.empty()) {
    run_says(why + ". Give another name.");
    return false;
  }
  why = loss("the statistics (ZEROHOP_STATS)", statistics, os::FileForm::kStatistics, program);
  if (why.empty()) return true;
  const bool beside = !arguments.report.empty() || !arguments.trace.empty();
  run_says(why + (beside ? ". Give --report or --trace another name, or -o STATS=FILE." : ". Give another name."));
  return false;
}

/// When a file was written, in ns; 0 if there is none.
int64_t written_ns(const std::string& path) {
  struct stat info {};
  constexpr int64_t kPerS = 1'000'000'000;
  return stat(path.c_str(), &info) == 0 ? info.st_mtim.tv_sec * kPerS + info.st_mtim.tv_nsec : 0;
}

/// The page is made when rank 0 has ended, which writes the statistics before. By the time of what is there now the
/// reporter knows the statistics of an older job.
void start_reporter(const std::string& page, const std::string& statistics, const std::string& trace) {
  if (launched_rank() != 0) return;
  if (const std::string wrong = wrong_output(page); !wrong.empty()) {
    run_says("there will be no --report: " + wrong);
    return;
  }
  const std::string program = os::own_folder() + "/zerohop";
  const std::string pid = std::to_string(getpid());
  const std::string first = (statistics.starts_with('-') ? "./" : "") + statistics;
  const std::string older = std::to_string(written_ns(statistics));
  std::vector<std::string> words = {program, "report", first, "--after=" + pid, "--older=" + older, "--output=" + page};
  if (!trace.empty()) words.push_back("--trace=" + trace);
  const int error = os::start_apart(program, words);
  if (error != 0) run_says("there will be no --report: " + program + ": " + std::strerror(error));
}

int run(RunArguments& arguments, const std::vector<std::string>& command) {
  if (command.empty()) {
    run_says("no program given; for example: mpiexec -n 4 zerohop run ./app");
    return kUsage;
  }
  if (command[0].starts_with('-')) {
    run_says("no option of `zerohop run`: " + command[0] + " (`zerohop run --help` names them)");
    return kUsage;
  }
  std::string path;
  if (const Status s = os::find_program(command[0], &path); !s.ok()) {
    run_says(shell_quoted({command[0]}) + ": " +
             (s.error() == ENOENT ? "program not found" : std::strerror(s.error())));
    return s.error() == ENOENT ? kNotFound : kCannotRun;
  }
  Options options;
  if (!read_options(arguments.options, &options)) return kUsage;
  if (!ask_for_files(arguments, &options) || !nothing_is_lost(arguments, options, path)) return kUsage;
  if (!export_options(options)) return kUsage;
  const std::string why_not = preload_obstacle(path);
  if (!why_not.empty()) {
    run_says(path + " " + why_not + ". It runs without zerohop.");
  } else {
    const std::string library = usable_library(arguments.library);
    if (library.empty()) return kCannotRun;
    const char* before = std::getenv("LD_PRELOAD");
    os::set_variable("LD_PRELOAD", preload_with(before != nullptr ? before : "", library, runtimes_of(path)));
  }
  if (arguments.dry) {
    const char* preload = std::getenv("LD_PRELOAD");
    std::vector<std::string> words = command;
    words[0] = path;
    std::string set;
    for (char** variable = environ; *variable != nullptr; ++variable) {
      if (std::string_view(*variable).starts_with("ZEROHOP_")) set += shell_quoted({*variable}) + " ";
    }
    std::printf("%sLD_PRELOAD=%s %s\n", set.c_str(), shell_quoted({preload != nullptr ? preload : ""}).c_str(),
                shell_quoted(words).c_str());
    return 0;
  }
  if (!arguments.hang_report.empty() && why_not.empty()) start_watcher(arguments.hang_report);
  if (!arguments.report.empty() && why_not.empty()) {
    start_reporter(arguments.report, options.get_text(Opt::kStats), arguments.trace);
  }
  const int error = os::execute(path, command);
  run_says(path + ": " +
           (error == ENOENT ? "what it names as its interpreter or loader is not there" : std::strerror(error)));
  return error == ENOENT ? kNotFound : kCannotRun;
}

}  // namespace

void add_run_command(CLI::App& app) {
  auto arguments = std::make_shared<RunArguments>();
  CLI::App* command = app.add_subcommand(
      "run",
      "Run a program with zerohop.\n"
      "  mpiexec -n 8 zerohop run [options] ./app args...\n"
      "Starts ./app with libzerohop.so preloaded. Works behind any launcher (mpiexec, mpirun, srun).\n"
      "Exit code: the program's; 127 not found, 126 cannot be run, 2 wrong use.");
  command
      ->add_option("-o,--option", arguments->options,
                   "NAME=VALUE of a ZEROHOP_ variable (the prefix may be left out) or setting; repeatable")
      ->type_size(1)
      ->allow_extra_args(false);
  command->add_option("--library", arguments->library,
                      "libzerohop.so to preload instead of the one beside this command");
  command
      ->add_option("--hang-report", arguments->hang_report,
                   "Tell on standard error when nothing has moved on this machine for so long, as 30, 30s or 2m, while "
                   "a rank waits: what each rank waits for, and who is to blame")
      ->type_name("TIME")
      ->check([](const std::string& text) {
        return patience_ns_of(text) != 0 ? "" : "no time: " + text + " (for example 30, 30s or 2m)";
      });
  command
      ->add_option(
          "--report", arguments->report,
          "Make a page of what limited the job, some seconds after it has ended (zerohop report); the statistics lie "
          "beside it")
      ->type_name("FILE.html");
  command
      ->add_option("--trace", arguments->trace,
                   "Write the latest 65,535 calls and messages of each rank with their times: a timeline for "
                   "ui.perfetto.dev, and in the page of --report; the statistics lie beside it")
      ->type_name("FILE.json");
  command->add_flag("--print", arguments->dry, "Print what would be run, and stop");
  command->prefix_command();
  command->callback([arguments, command] {
    std::vector<std::string> rest = command->remaining();
    if (!rest.empty() && rest[0] == "--") rest.erase(rest.begin());
    exit_code = run(*arguments, rest);
  });
}

}  // namespace zh::tools
