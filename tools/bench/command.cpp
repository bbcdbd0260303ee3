// See command.h.
#include "tools/bench/command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "coll/algorithms/algorithms.h"
#include "os/program.h"
#include "tools/bench/arms.h"
#include "tools/bench/report.h"
#include "tools/cli/commands.h"
#include "tools/cli/inputs.h"
#include "tools/cli/text.h"

namespace zh::tools {
namespace {

constexpr int kNothingToRun = 127;
constexpr int kMostBlocks = 64;  // kMaxBlocks of bench/mpi/bench.h

void settle_pace(const Pace& pace, BenchOptions* o) {
  if (o->rounds <= 0) o->rounds = pace.rounds;
  if (o->blocks <= 0) o->blocks = pace.blocks;
  if (o->block_us <= 0) o->block_us = pace.block_us;
  if (o->case_s <= 0) o->case_s = pace.case_s;
}

std::vector<std::string> program_arguments(const BenchOptions& o) {
  std::vector<std::string> arguments = {
      "--buffers", o.buffers, "--blocks", std::to_string(o.blocks), "--block-us", fmt::format("{:.0f}", o.block_us)};
  const auto add = [&](const char* option, const std::string& value) {
    if (!value.empty()) arguments.insert(arguments.end(), {option, value});
  };
  add("--case-s", o.case_s > 0 ? fmt::format("{:g}", o.case_s) : "");
  add("--only", o.only);
  add("--sizes", o.sizes);
  if (o.quick) arguments.emplace_back("--quick");
  arguments.insert(arguments.end(), o.own_arguments.begin(), o.own_arguments.end());
  return arguments;
}

/// Whether somebody else's launcher started this process as a rank.
bool in_a_job() {
  const auto is_set = [](const char* name) { return std::getenv(name) != nullptr; };
  return is_set("PMI_RANK") || is_set("OMPI_COMM_WORLD_RANK") || is_set("PMIX_RANK");
}

/// This rank becomes the benchmark program with zerohop preloaded. Returns only when it cannot.
int become_program(const MpiBench& bench, const BenchOptions& o) {
  const bool openmpi = std::getenv("OMPI_COMM_WORLD_RANK") != nullptr;
  const std::string zerohop = os::own_folder() + "/zerohop";
  const std::string abi = openmpi ? "ompi" : o.hosts.abi.empty() ? "mpich" : o.hosts.abi;
  std::vector<std::string> command = {zerohop, "run", bench_program(o.hosts, o.program, abi), "--arms", kPairedArms};
  const std::vector<std::string> arguments = program_arguments(o);
  command.insert(command.end(), arguments.begin(), arguments.end());
  if (!o.json_path.empty()) command.insert(command.end(), {"--out", o.json_path});
  const int error = os::execute(zerohop, command);
  fmt::print(stderr, "zerohop bench {}: {}: {}\n", bench.name, zerohop, std::strerror(error));
  return kNothingToRun;
}

int report_with_load(const MpiBench& bench, const Launches& launches) {
  const int code = bench.report(launches);
  const std::string busy = run_line_of(launches.machine);
  if (!busy.empty()) fmt::print("{}\n", busy);
  return code;
}

int run_bench(const MpiBench& bench, const BenchOptions& o) {
  const std::string command = "bench " + bench.name;
  std::string wrong = bench.check ? bench.check() : "";
  for (const int ranks : o.ranks) {
    if (wrong.empty() && o.names_ranks && o.rejudge_path.empty()) wrong = wrong_machines(o, ranks);
  }
  if (wrong.empty() && (are_one_file(o.launches_path, o.json_path) || are_one_file(o.rejudge_path, o.json_path)))
    wrong = "the results (--json) would replace the launches: " + o.json_path;
  if (!wrong.empty()) return refuse(command, wrong);
  if (!o.rejudge_path.empty()) {
    const auto launches = read_launches(o.rejudge_path, command);
    return launches ? report_with_load(bench, *launches) : 2;
  }
  if (in_a_job()) return become_program(bench, o);
  const auto hosts = choose_hosts(o.hosts, o.quick || o.one_under, command, o.program);
  if (!hosts) return 2;
  LoadWatch watch(command);
  Rounds rounds(command);
  rounds.set_counting(true);
  bench.run_round(*hosts, 0, &rounds);
  rounds.set_counting(false);
  for (int round = 0; round < o.rounds; ++round) {
    bench.run_round(*hosts, round, &rounds);
    watch.look();
    if (rounds.failures() > 0 && rounds.launches().records.empty() && round + 1 < o.rounds) {
      rounds.progress().tell("every launch of the first round failed: no further round");
      break;
    }
  }
  rounds.progress().clear();
  rounds.set_machine(watch.load());
  rounds.set_arms(o.arms);
  const bool kept = o.launches_path.empty() || write_launches(o.launches_path, rounds.launches(), command);
  const int code = report_with_load(bench, rounds.launches());
  if (rounds.failures() > 0)
    fmt::print(stderr, "zerohop {}: {} launches failed and are not in the table\n", command, rounds.failures());
  return code != 0 ? code : rounds.failures() > 0 || !kept ? 2 : 0;
}

}  // namespace

void add_bench_command(CLI::App& app) {
  CLI::App* bench = app.add_subcommand(
      "bench", "Measure: the machine's limit (raw), host MPI and zerohop side by side (p2p, coll, apps), algorithms.");
  bench->require_subcommand(1);
  for (const auto add : {add_bench_p2p_command, add_bench_coll_command, add_bench_algorithms_command,
                         add_bench_raw_command, add_bench_breakdown_command}) {
    add(*bench);
  }
  add_python_command(*bench, "apps", "apps", "What applications gain and lose: NAS, LAMMPS, HPCC, IMB and others");
}

CLI::App* add_mpi_bench(CLI::App& parent, const std::shared_ptr<BenchOptions>& options, MpiBench bench) {
  BenchOptions* o = options.get();
  if (o->program.empty()) o->program = bench.name;
  CLI::App* c = parent.add_subcommand(bench.name, bench.about);
  c->footer(bench.examples);
  add_host_options(*c, &o->hosts);
  add_machine_options(*c, &o->hosts);
  c->add_option("--rounds", o->rounds,
                fmt::format("Rounds (default {}; {} with --quick; fewer than 6 resolve nothing)",
                            bench.usual_pace.rounds, bench.quick_pace.rounds))
      ->check(CLI::Range(1, 100000));
  c->add_flag("--quick", o->quick, bench.quick);
  c->add_option("--sizes", o->sizes, bench.sizes)->check([range = bench.size_range](const std::string& list) {
    return wrong_sizes(range, list);
  });
  c->add_option("--buffers", o->buffers, "malloc, static, alloc_mem")
      ->check([](const std::string& list) {
        return wrong_names({"malloc", "static", "alloc_mem"}, list);
      })
      ->capture_default_str();
  c->add_option("--json", o->json_path, "Write all results as JSON (`zerohop python csv FILE` makes CSV of it)")
      ->check(&wrong_output);
  c->add_option("--launches", o->launches_path, "Write every launch's document, for --rejudge")->check(&wrong_output);
  c->add_option("--rejudge", o->rejudge_path, "Judge the launches of an earlier run again; starts nothing")
      ->check(&wrong_input);
  c->add_option("--blocks", o->blocks, "Blocks of each arm per case and launch")->check(CLI::Range(1, kMostBlocks));
  c->add_option("--block-us", o->block_us, "Aimed length of a block in microseconds")->check(number_in(1, 1e6));
  c->add_option("--case-s", o->case_s, "No further block of a case that has taken this many seconds")
      ->check(number_in(1e-3, 1e6));
  c->add_option("--timeout", o->timeout_s, "Seconds after which a launch is ended")
      ->check(number_in(1e-3, 1e6))
      ->capture_default_str();
  c->add_flag("--null", o->null_test, "Run everything without zerohop: every ratio must come out at 1");
  c->final_callback([options, bench = std::move(bench)] {
    settle_pace(options->quick ? bench.quick_pace : bench.usual_pace, options.get());
    const int code = run_bench(bench, *options);
    if (code != 0) throw CLI::RuntimeError(code);
  });
  return c;
}

std::string wrong_machines(const BenchOptions& o, int ranks) {
  const int machines = o.hosts.machines;
  if (machines == 0) return {};
  // Neighbours fill one machine after the other.
  const int each = (ranks + machines - 1) / machines;
  const int used = o.hosts.cyclic ? std::min(ranks, machines) : (ranks + each - 1) / each;
  return used == machines ? "" : fmt::format("{} ranks would fill {} of {} machines", ranks, used, machines);
}

void add_ranks_option(CLI::App& command, BenchOptions* options) {
  options->names_ranks = true;
  command.add_option("--ranks", options->ranks, "Comma list of numbers of ranks")
      ->delimiter(',')
      ->check(CLI::Range(2, kMostRanks))
      ->default_str("2,8");
}

void add_line_option(CLI::App& command, BenchOptions* options) {
  command
      .add_option("--line", options->line, "Only launches whose first two ranks were near or far, by their raw line")
      ->check(CLI::IsMember({"near", "far"}));
}

void add_arm_option(CLI::App& command, BenchOptions* options) {
  command
      .add_option("--arm", options->arms,
                  "One way of zerohop: NAME, or NAME:OPTION=VALUE,... with variables and settings as `zerohop run "
                  "--option` takes them; repeatable. Each has launches of its own, in which the host's arms alternate "
                  "with it, and a column; bare hosts are those of --hosts")
      ->type_size(1)
      ->allow_extra_args(false)
      ->check(&wrong_arm);
}

int report_arms(const BenchOptions& o, const Launches& launches, const std::string& command) {
  print_shown(arms_text(launches.records));
  nlohmann::json document = {{"schema", "zerohop-bench-arms/1"}, {"arms", launches.arms}};
  document["rows"] = arms_rows(launches.records);
  return write_document(o, std::move(document), launches.machine, command) ? 0 : 2;
}

bool is_at(const LaunchRecord& record, const std::string& line) {
  return line.empty() || record.document.value("placement", "") == line;
}

std::string left_out_text(const std::vector<LaunchRecord>& launches, const std::string& line) {
  const auto others = std::ranges::count_if(launches, [&](const auto& r) { return !is_at(r, line); });
  return line.empty() ? "" : fmt::format("{} launches, {} left out that were not {}\n", launches.size(), others, line);
}

PlannedLaunch plan_launch(const std::string& name, const BenchOptions& o, const BenchHost& host, int ranks,
                          const std::string& arms) {
  PlannedLaunch p{&host, arms != kHostArm, "", {}};
  LaunchSpec& s = p.spec;
  s.host = &host;
  s.ranks = ranks;
  s.timeout_s = o.timeout_s;
  s.zerohop = p.zerohop && !o.null_test;
  if (s.zerohop) s.program = {os::own_folder() + "/zerohop", "run"};
  s.program.insert(s.program.end(), {bench_program(o.hosts, name, host.abi), "--label", host.name, "--arms", arms});
  const std::vector<std::string> arguments = program_arguments(o);
  s.program.insert(s.program.end(), arguments.begin(), arguments.end());
  return p;
}

std::vector<PlannedLaunch> plan_launches(const std::string& name, const BenchOptions& o, const Hosts& hosts,
                                         int ranks) {
  std::vector<PlannedLaunch> planned;
  if (o.arms.empty() || !o.hosts.hosts.empty()) {
    for (const BenchHost& h : hosts.peers) planned.push_back(plan_launch(name, o, h, ranks, kHostArm));
  }
  const std::vector<std::string> arms = o.arms.empty() ? std::vector<std::string>{""} : o.arms;
  for (const BenchHost& h : hosts.under) {
    for (const std::string& text : arms) {
      Arm arm = arm_of(text);
      planned.push_back(plan_launch(name, o, h, ranks, kPairedArms));
      planned.back().setting = std::move(arm.name);
      planned.back().spec.env = std::move(arm.variables);
      planned.back().spec.settings = std::move(arm.settings);
    }
  }
  return planned;
}

void choose_algorithm(const std::string& collective, const std::string& algorithm, const std::string& chunk,
                      PlannedLaunch* launch) {
  if (!algorithm.empty()) launch->spec.env["ZEROHOP_ALGORITHM"] = collective + ":" + algorithm;
  const coll::Algorithm* how = coll::algorithm(coll::collective_named(collective), algorithm);
  if (!chunk.empty() && (how == nullptr || coll::cuts(*how))) launch->spec.settings["chunk"] = chunk;
}

std::vector<std::string> wanted_of(const BenchOptions& o, const std::string& part) {
  const std::vector<std::string> wanted = split(o.only);
  std::vector<std::string> benches = split(part);
  if (!wanted.empty()) std::erase_if(benches, [&](const std::string& b) { return !contains(wanted, b); });
  return benches;
}

bool write_document(const BenchOptions& o, nlohmann::json document, const MachineLoad& machine,
                    const std::string& command) {
  document["machine"] = json_of(machine);
  return o.json_path.empty() || write_file(o.json_path, document.dump(1) + "\n", command);
}

bool write_judged(const BenchOptions& o, const Judged& judged, const MachineLoad& machine, const std::string& command,
                  const nlohmann::json& summary) {
  nlohmann::json document = json_of(judged);
  if (!summary.is_null()) document["summary"] = summary;
  return write_document(o, std::move(document), machine, command);
}

}  // namespace zh::tools
