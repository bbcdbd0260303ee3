// `zerohop doctor`: what a job will meet here, what it costs where that is not good, and the command that mends it.
// Asks for the checks, prints them, and makes the exit code of them.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/options.h"
#include "tools/cli/commands.h"
#include "tools/cli/inputs.h"
#include "tools/cli/text.h"
#include "tools/doctor/doctor.h"

namespace zh::tools {
namespace {

struct DoctorArguments {
  bool as_json = false;
  std::string stats;
  std::string library;  ///< to describe, for look_at_library()
  std::vector<std::string> program;
};

const char* to_string(State state) { return state == State::kOk ? "ok" : state == State::kWarn ? "warn" : "bad"; }

std::vector<Check> examine(const std::vector<std::string>& program) {
  Options options;
  options.read_environment(environ);
  const Parts parts = look_at_parts();
  const MpiFacts mpi = look_for_mpi();
  ProgramFacts facts;
  if (!program.empty()) facts = look_at_program(program.front());
  std::vector<Check> checks =
      job_checks(parts, mpi, program.empty() ? nullptr : &facts, look_at_preloads(parts.library));
  const auto add = [&checks](std::vector<Check> more) { checks.insert(checks.end(), more.begin(), more.end()); };
  add({check_variables(options), check_calibration(look_at_calibration(options))});
  add(machine_checks(options));
  add(heap_checks(look_at_heap(options)));
  return checks;
}

/// False, after a message, if the file cannot be read.
bool examine_run(const std::string& path, std::vector<Check>* checks, nlohmann::json* collectives) {
  std::string problem;
  const nlohmann::json document = read_json(path, &problem);
  if (!problem.empty()) {
    const bool missing = problem == std::strerror(ENOENT);
    std::fprintf(stderr, "zerohop doctor: %s: %s%s\n", path.c_str(), problem.c_str(),
                 missing ? " (a job that zerohop did not serve writes none)" : "");
    return false;
  }
  RunStats run;
  if (!read_run(document, &run)) {
    const nlohmann::json schema = document.is_object() ? document.value("schema", nlohmann::json()) : nlohmann::json();
    const std::string why = schema.is_number() && schema != 1
                                ? "has schema " + schema.dump() + "; this command reads 1: use that of its zerohop"
                                : "is not a file that ZEROHOP_STATS wrote";
    std::fprintf(stderr, "zerohop doctor: %s %s\n", path.c_str(), why.c_str());
    return false;
  }
  for (Check& c : run_checks(run)) checks->push_back(std::move(c));
  for (const RunStats::Calls& c : run.calls) {
    collectives->push_back(
        {{"call", c.call}, {"ranks", c.ranks}, {"by", c.by}, {"calls", c.calls}, {"bytes", c.bytes}});
  }
  return true;
}

void print_doctor_text(const std::vector<Check>& checks, State worst, bool of_a_run) {
  const size_t columns = output_columns();
  const auto line = [columns](const std::string& head, const std::string& text) {
    std::fputs(hanging(head, text, columns).c_str(), stdout);
  };
  for (const Check& c : checks) {
    line(fmt::format("{:<4}  {:<16}  ", to_string(c.state), c.name), c.finding);
    if (!c.cost.empty()) line("      costs: ", c.cost);
    if (!c.cure.empty()) line("      mend:  ", c.cure);
  }
  if (of_a_run) {
    std::printf("\n");
    return line("", "The ways of bytes (inline, cells, team ...) are in docs/glossary.md.");
  }
  constexpr const char* kVerdicts[] = {"All is well.", "Something costs speed: see \"warn\" above.",
                                       "Zerohop cannot work so: see \"bad\" above."};
  std::printf("\n%s\n", kVerdicts[static_cast<size_t>(worst)]);
}

int doctor(const DoctorArguments& arguments) {
  if (!arguments.library.empty()) return describe_library(arguments.library);
  if (launched_rank() != 0) return 0;
  std::vector<Check> checks;
  nlohmann::json collectives = nlohmann::json::array();
  const bool of_a_run = !arguments.stats.empty();
  if (!of_a_run) {
    checks = examine(arguments.program);
  } else if (!examine_run(arguments.stats, &checks, &collectives)) {
    return 2;
  }
  State worst = State::kOk;
  for (const Check& c : checks) worst = std::max(worst, c.state);
  if (!arguments.as_json) {
    print_doctor_text(checks, worst, of_a_run);
    return static_cast<int>(worst);
  }
  nlohmann::json out = {{"version", ZH_VERSION}, {"worst", to_string(worst)}, {"checks", nlohmann::json::array()}};
  for (const Check& c : checks) {
    out["checks"].push_back(
        {{"name", c.name}, {"state", to_string(c.state)}, {"finding", c.finding}, {"cost", c.cost}, {"cure", c.cure}});
  }
  if (of_a_run) out["collectives"] = collectives;
  // Names of files may hold anything.
  std::printf("%s\n", out.dump(2, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
  return static_cast<int>(worst);
}

}  // namespace

void add_doctor_command(CLI::App& app) {
  auto arguments = std::make_shared<DoctorArguments>();
  CLI::App* command =
      app.add_subcommand("doctor",
                         "What a job will meet here, what it costs where that is not good, and the command that mends\n"
                         "it. Exit code: 0 all is well, 1 something costs speed, 2 zerohop cannot work here.");
  command->footer(
      "  zerohop doctor                    this machine, its MPI library, the variables that are set\n"
      "  zerohop doctor ./app              the same, and whether zerohop can serve this program\n"
      "  mpiexec -n 8 zerohop doctor       inside a job: also its ranks and where they are bound\n"
      "  zerohop doctor --stats run.json   a run that is over");
  command->add_flag("--json", arguments->as_json, "Print JSON");
  CLI::Option* stats = command->add_option(
      "--stats", arguments->stats,
      "Look at a run instead of the machine: the file that ZEROHOP_STATS wrote. Tells the share of bytes that went "
      "through mapped memory, and why not more, what collectives were called, and how the job ended");
  command
      ->add_option("program", arguments->program,
                   "Program to look into, as `zerohop run` finds it; its arguments "
                   "are not looked at")
      ->excludes(stats);
  command->add_option("--describe-library", arguments->library)->group("");
  command->callback([arguments] { exit_code = doctor(*arguments); });
}

}  // namespace zh::tools
