// `zerohop schedule`: shows the schedule of a collective, proves it, draws it, and prices it on a machine of given
// costs. Needs no MPI and no machine of that size: schedules are data.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/options.h"
#include "coll/algorithms/choose.h"
#include "coll/analysis/check.h"
#include "coll/analysis/draw.h"
#include "coll/analysis/timeline.h"
#include "coll/schedule/parts.h"
#include "tools/cli/commands.h"
#include "tools/cli/inputs.h"
#include "tools/cli/text.h"
#include "tools/model/costs.h"
#include "tools/model/profile.h"

namespace zh::tools {
namespace {

using coll::Algorithm;
using coll::Collective;
using coll::Problem;
using coll::Schedule;
using coll::Step;
using nlohmann::json;

struct ScheduleArguments {
  std::string collective;
  std::string algorithm;
  uint32_t nodes = 1;
  uint32_t ranks = 0;  ///< in all; 0: kRanksOnNode on each node
  std::vector<uint32_t> ranks_on;
  bool cyclic = false;
  bool team = false;
  bool as_jobs = false;
  uint32_t root = 0;
  uint64_t bytes = 64 << 10;
  uint64_t element_bytes = 1;
  uint64_t chunk = 0;
  bool ordered = false;
  bool in_place = false;
  bool list = false;
  bool no_steps = false;
  bool as_json = false;
  std::string svg;
  std::string profile;  ///< of the machine whose costs are told; "": none
  uint64_t stride = 0;
  uint32_t chips = 0;       ///< 0: as the profile has it
  uint32_t processors = 0;  ///< the same
};

// What is shown fits some 4 GiB: a step takes 300 bytes with its proof and its time, a stretch of bytes 100.
constexpr uint32_t kMostScheduleRanks = 131'072;
constexpr uint64_t kMostSteps = 8'000'000;
constexpr uint64_t kMostStretches = 12'000'000;
/// Of a picture.
constexpr uint32_t kMostDrawnRanks = 1024;
constexpr uint64_t kRanksOnNode = 8;

int list(const ScheduleArguments& a) {
  json out = json::array();
  for (size_t c = 0; c < static_cast<size_t>(Collective::kCount); ++c) {
    const auto collective = static_cast<Collective>(c);
    if (!a.collective.empty() && a.collective != name_of(collective)) continue;
    if (!a.as_json) fmt::print("{}\n", name_of(collective));
    for (const Algorithm& algorithm : coll::algorithms(collective)) {
      out.push_back({{"collective", name_of(collective)},
                     {"algorithm", algorithm.name},
                     {"what", algorithm.what},
                     {"source", algorithm.source},
                     {"cuts", coll::cuts(algorithm)}});
      if (!a.as_json)
        print_fitted(
            fmt::format("  {:<25} {}\n  {:<25}   [{}]\n", algorithm.name, algorithm.what, "", algorithm.source));
    }
  }
  if (a.as_json) fmt::print("{}\n", out.dump(2));
  return 0;
}

/// Node of every rank, in blocks or in turn; empty if there are no ranks or too many. `a.ranks` goes into the nodes
/// alike.
std::vector<uint32_t> node_of_ranks(const ScheduleArguments& a) {
  std::vector<uint32_t> sizes = a.ranks_on;
  if (sizes.empty()) sizes.assign(a.nodes, a.ranks == 0 ? kRanksOnNode : a.ranks / a.nodes);
  uint64_t ranks = 0;
  for (const uint32_t size : sizes) ranks += size;
  std::vector<uint32_t> out;
  while (ranks <= kMostScheduleRanks && out.size() < ranks) {
    for (uint32_t node = 0; node < sizes.size(); ++node) {
      const uint32_t taken = a.cyclic ? std::min(1U, sizes[node]) : sizes[node];
      sizes[node] -= taken;
      out.insert(out.end(), taken, node);
    }
  }
  return out;
}

json step_json(const Step& step, uint32_t index, const Schedule& schedule, coll::Span span) {
  static constexpr const char* kKinds[] = {"copy",         "reduce_local",   "send",        "receive",   "bcast_root",
                                           "bcast",        "reduce",         "reduce_root", "gather",    "gather_root",
                                           "scatter_root", "scatter",        "barrier",     "allreduce", "allgather",
                                           "alltoall",     "reduce_scatter", "scan",        "exscan"};
  static_assert(std::size(kKinds) == static_cast<size_t>(coll::StepKind::kExscan) + 1, "every kind has a name");
  static constexpr const char* kPlaces[] = {"input", "output", "scratch"};
  json out = {{"step", index},       {"kind", kKinds[static_cast<size_t>(step.kind)]},
              {"bytes", step.bytes}, {"waits_for", schedule.waits_of(step)},
              {"start", span.start}, {"end", span.end}};
  if (step.message() || step.shared()) out["peer"] = step.peer;
  if (step.message()) out["tag"] = step.tag;
  if (step.shared()) out["with"] = step.of_leaders ? "leaders" : "node";
  if (step.n_parts != 0) out["parts"] = schedule.parts_of(step);
  if (step.reads()) out["from"] = {{"buffer", kPlaces[static_cast<size_t>(step.from)]}, {"at", step.from_at}};
  if (step.writes()) out["to"] = {{"buffer", kPlaces[static_cast<size_t>(step.to)]}, {"at", step.to_at}};
  return out;
}

void print_steps(const std::vector<Schedule>& schedules, const coll::Timeline& times) {
  const size_t columns = output_columns();
  fmt::print("\nrank step  time      waits for     what\n");
  for (size_t rank = 0; rank < schedules.size(); ++rank) {
    const Schedule& schedule = schedules[rank];
    for (uint32_t i = 0; i < schedule.steps.size(); ++i) {
      std::string waits;
      for (const uint32_t wait : schedule.waits_of(schedule.steps[i]))
        waits += (waits.empty() ? "" : " ") + std::to_string(wait);
      const coll::Span span = times.spans[rank][i];
      const std::string head =
          fmt::format("{:4} {:4}  {:3g}-{:<4g}  {:<12}  ", rank, i, span.start, span.end, waits.empty() ? "-" : waits);
      fmt::print("{}", hanging(head, describe(schedule.steps[i]), columns));
    }
  }
}

Problem asked_problem(const ScheduleArguments& a, const std::vector<uint32_t>& nodes) {
  Problem problem;
  problem.collective = coll::collective_named(a.collective);
  problem.root = a.root;
  problem.element_bytes = a.element_bytes;
  problem.count = a.bytes / a.element_bytes;
  problem.chunk_bytes = a.chunk;
  problem.commutative = !a.ordered;
  problem.layout = std::make_shared<const coll::Layout>(nodes);
  problem.blocks = a.team || a.as_jobs || problem.layout->nodes() > 1;  // between nodes none else is served
  problem.team = a.team || (a.as_jobs && job_shares(problem, a.algorithm));
  return problem;
}

/// One algorithm's schedules of all ranks, and what is known of them.
struct Found {
  Problem problem;
  std::string algorithm;
  uint64_t chunk = 0;           ///< in force; 0: whole
  std::vector<uint32_t> nodes;  ///< by rank
  std::vector<Schedule> schedules;
  coll::Verdict verdict;
  coll::Timeline times;
  json costs;  ///< of the machine that was named
  [[nodiscard]] uint64_t scratch() const {
    uint64_t most = 0;
    for (const Schedule& s : schedules) most = std::max(most, s.scratch_bytes);
    return most;
  }
};

std::string title_of(const ScheduleArguments& a, const Found& f) {
  const uint32_t nodes = f.problem.layout->nodes();
  std::string title = fmt::format("{} by {}: {} ranks on {} {}", a.collective, f.algorithm, f.nodes.size(), nodes,
                                  nodes == 1 ? "node" : "nodes");
  if (f.problem.collective != Collective::kBarrier) title += ", " + size_text(f.problem.bytes());
  if (f.chunk > 0) title += " in chunks of " + size_text(f.chunk);
  if (f.chunk == 0 && a.chunk > 0) title += ", which it does not cut";
  if (coll::has_root(f.problem.collective)) title += fmt::format(", root {}", a.root);
  return title;
}

void print_schedule_json(const ScheduleArguments& a, const Found& f) {
  const Algorithm& algorithm = *coll::algorithm(f.problem.collective, f.algorithm);
  json out = {{"collective", a.collective},
              {"algorithm", f.algorithm},
              {"what", algorithm.what},
              {"source", algorithm.source},
              {"node_of_rank", f.nodes},
              {"bytes", f.problem.bytes()},
              {"chunk_bytes", f.chunk},
              {"cuts", algorithm.cuts(f.problem)},
              {"team", f.problem.team},
              {"left_to_host", a.algorithm.empty() && coll::host_serves(f.problem)},
              {"root", f.problem.root},
              {"proved", f.verdict.proved()},
              {"fault", f.verdict.fault},
              {"messages", f.verdict.messages},
              {"message_bytes", f.verdict.message_bytes},
              {"messages_between_nodes", f.verdict.node_messages},
              {"bytes_between_nodes", f.verdict.node_bytes},
              {"scratch_bytes", f.scratch()},
              {"logical_time", f.times.end},
              {"ranks", json::array()}};
  if (!f.costs.is_null()) out["costs"] = f.costs;
  for (size_t rank = 0; rank < f.schedules.size() && !a.no_steps && f.verdict.proved(); ++rank) {
    json steps = json::array();
    for (uint32_t i = 0; i < f.schedules[rank].steps.size(); ++i) {
      steps.push_back(step_json(f.schedules[rank].steps[i], i, f.schedules[rank], f.times.spans[rank][i]));
    }
    out["ranks"].push_back(std::move(steps));
  }
  fmt::print("{}\n", out.dump(2));
}

void print_schedule_text(const ScheduleArguments& a, const Found& f, const std::string& title) {
  const Algorithm& algorithm = *coll::algorithm(f.problem.collective, f.algorithm);
  const coll::Verdict& v = f.verdict;
  print_fitted(
      fmt::format("{}\n{} [{}]\n{}\n", title, algorithm.what, algorithm.source,
                  a.algorithm.empty() && coll::host_serves(f.problem) ? "Jobs leave this call to the host.\n" : ""));
  print_fitted(fmt::format(
      "{} steps, {} messages of {} in all, between nodes {} of {}; scratch {} on a rank; logical time {:g}\n", v.steps,
      v.messages, size_text(v.message_bytes), v.node_messages, size_text(v.node_bytes), size_text(f.scratch()),
      f.times.end));
  if (!v.proved()) {
    print_fitted(fmt::format("WRONG: {}\n", v.fault));
    return;
  }
  print_fitted(
      "proved: no deadlock with any mix of eager and synchronous sends, no race, the right bytes everywhere\n");
  if (!a.svg.empty()) fmt::print("drawn in {}\n", a.svg);
  if (!f.costs.is_null()) fmt::print("\n{}", costs_text(f.costs, output_columns()));
  if (!a.no_steps) print_steps(f.schedules, f.times);
}

std::vector<Problem> problems_of(const ScheduleArguments& a, const Problem& problem) {
  std::vector<Problem> problems = coll::for_all_ranks(problem);
  const Collective collective = problem.collective;
  for (Problem& p : problems) {
    p.in_place = a.in_place && collective != Collective::kBarrier && collective != Collective::kBcast &&
                 (!coll::has_root(collective) || p.self == p.root);
  }
  return problems;
}

/// Which pieces the algorithm makes; "" or why not those that were asked for.
std::string wrong_with_chunk(const ScheduleArguments& a, Found* f) {
  const Algorithm* algorithm = coll::algorithm(f->problem.collective, f->algorithm);
  if (algorithm == nullptr) return "";
  f->chunk = coll::chunk_in_force(f->problem, *algorithm);
  const uint64_t asked = (a.chunk + a.element_bytes - 1) / a.element_bytes * a.element_bytes;
  if (f->chunk <= asked) return "";
  return fmt::format("a vector is cut into {} pieces at most: --chunk {} or more, please", coll::kMostChunks, f->chunk);
}

/// Every rank's own schedule, and the proof of all of them together. Says why not, "" if all is there.
std::string find(const std::vector<Problem>& problems, Found* f) {
  uint64_t steps = 0;
  f->schedules.reserve(problems.size());
  for (const Problem& problem : problems) {
    if (const Status s = coll::build(problem, f->algorithm, &f->schedules.emplace_back()); !s.ok()) {
      return fmt::format("{}; `zerohop schedule --list {}` names the algorithms", s.what(),
                         name_of(problem.collective));
    }
    steps += f->schedules.back().steps.size();
    if (steps > kMostSteps) {
      return fmt::format(
          "the schedules of {} ranks have more than {} steps: fewer ranks, larger chunks or another "
          "algorithm, please",
          problems.size(), kMostSteps);
    }
  }
  f->verdict = coll::check(problems, f->schedules, {kMostStretches});
  if (f->verdict.gave_up) return "not proved, since " + f->verdict.fault;
  if (f->verdict.proved()) f->times = coll::timeline(f->schedules, *f->problem.layout);
  return "";
}

/// What it costs on the machine of the profile; "" or why nobody knows.
std::string price(const ScheduleArguments& a, Found* f) {
  std::string problem;
  std::optional<model::Parameters> parameters = find_profile(a.profile, &problem);
  if (!parameters) return problem;
  if (!a.ranks_on.empty()) return "--profile takes nodes that are alike: --nodes and --ranks";
  if (a.chips > 0) parameters->chips_per_node = a.chips;
  if (a.processors > 0) parameters->processors_per_node = a.processors;
  ModelCase c;
  c.collective = f->problem.collective;
  c.algorithm = f->algorithm;
  c.cluster = on_nodes_of(*parameters, {.ranks = f->problem.ranks(), .nodes = a.nodes, .cyclic = a.cyclic});
  c.root = a.root;
  c.bytes = a.bytes;
  c.stride = a.stride;
  c.chunk = a.chunk;
  f->costs = costs_json(c, f->schedules, *parameters);
  return "";
}

int schedule(const ScheduleArguments& a) {
  const Collective collective = coll::collective_named(a.collective);
  if (collective == Collective::kCount && (!a.list || !a.collective.empty()))
    return refuse("schedule", no_collective(a.collective));
  if (a.list) return list(a);
  if (a.ranks % a.nodes != 0)
    return refuse("schedule", fmt::format("{} ranks do not go into {} nodes alike: --ranks-on takes those of each node",
                                          a.ranks, a.nodes));
  if (a.bytes % a.element_bytes != 0) {
    return refuse("schedule", fmt::format("{} bytes are no whole number of elements of {} bytes (--bytes, --element)",
                                          a.bytes, a.element_bytes));
  }
  Found f;
  f.nodes = node_of_ranks(a);
  if (f.nodes.empty()) return refuse("schedule", "1 to " + std::to_string(kMostScheduleRanks) + " ranks, please");
  if (a.root >= f.nodes.size()) return refuse("schedule", "there is no rank " + std::to_string(a.root));
  if (!a.svg.empty() && f.nodes.size() > kMostDrawnRanks) {
    return refuse("schedule", fmt::format("a picture has {} ranks at most, not {}: leave --svg out", kMostDrawnRanks,
                                          f.nodes.size()));
  }
  f.problem = asked_problem(a, f.nodes);
  f.algorithm = a.algorithm.empty() ? std::string(coll::default_algorithm(f.problem)) : a.algorithm;
  if (const std::string why = wrong_with_chunk(a, &f); !why.empty()) return refuse("schedule", why);
  if (const std::string why = find(problems_of(a, f.problem), &f); !why.empty())
    return refuse("schedule", f.algorithm + ": " + why);
  if (!a.profile.empty()) {
    if (const std::string why = price(a, &f); !why.empty()) return refuse("schedule", why);
  }
  const std::string title = title_of(a, f);
  if (!a.svg.empty() && f.verdict.proved()) {
    if (!write_file(a.svg, coll::draw(f.schedules, *f.problem.layout, f.times, title), "schedule")) return 2;
  }
  if (a.as_json) {
    print_schedule_json(a, f);
  } else {
    print_schedule_text(a, f, title);
  }
  return f.verdict.proved() ? 0 : 1;
}

void add_pricing_options(CLI::App* command, ScheduleArguments* a) {
  CLI::Option* profile = command->add_option("-p,--profile", a->profile,
                                             "Tell what it costs on this machine: built in, or a file (zerohop tune)");
  command->add_option("-d,--stride", a->stride, "Bytes from one element's start to the next one's; 0: contiguous")
      ->transform(CLI::AsSizeValue(false))
      ->check(CLI::Range(uint64_t{0}, kMostModelBytes))
      ->needs(profile);
  command->add_option("--chips", a->chips, "Chips (CMPs) of a node (default: the profile's)")
      ->check(CLI::Range(1U, 1024U))
      ->needs(profile);
  command->add_option("--processors", a->processors, "Processors of a node, for which more ranks wait (the profile's)")
      ->check(CLI::Range(1U, model::kMostProcessors))
      ->needs(profile);
}

}  // namespace

void add_schedule_command(CLI::App& app) {
  auto a = std::make_shared<ScheduleArguments>();
  CLI::App* command = app.add_subcommand("schedule", "The steps of a collective: shown, proved, drawn and priced.");
  command->footer(
      "A collective of several steps is described once, as a schedule: copies, reductions and messages of every rank, "
      "and which of them wait for which. The library runs it; this command proves it and shows it, for any number of "
      "ranks and nodes up to 131072 ranks, or 8 million steps of all of them. Sizes may be written 64K or 1M.\n\n"
      "  zerohop schedule --list                                  all collectives and algorithms\n"
      "  zerohop schedule allreduce --nodes 4                     what zerohop would choose\n"
      "  zerohop schedule bcast --algorithm leader-ring --nodes 4 --ranks 8 --chunk 8K --svg ring.svg\n"
      "  zerohop schedule scan --ranks-on 3 1 4 --no-steps        unequal nodes, the verdict alone\n"
      "  zerohop schedule bcast --nodes 16000 --no-steps          128,000 ranks; some seconds\n"
      "  zerohop schedule bcast --nodes 8 -p gigabit-like --no-steps\n                                                 "
      "          what it would cost\n\n"
      "Time in the table and the picture is logical: a copy, reduction or shared step takes 1, a message inside a node "
      "2, one between them 4, a step of N leaders log2 N times 4. With --profile it is also told in µs, by the paper's "
      "closed form where it has one (bcast by linear, binomial, hierarchical) and by a walk of the steps at the prices "
      "of four models: log3P knows one level, 2log{2,3}P two, mlog_nP three; with links, a node's messages share its "
      "link. A prediction is as good as the profile. Ends with 0 if the schedule is proved, 1 if a fault was found, 2 "
      "if there is none to prove or it is too large.");
  command->add_option("collective", a->collective, "bcast, allreduce, ... (see --list)");
  command->add_option("-a,--algorithm", a->algorithm, "By name (see --list); otherwise zerohop's choice");
  command->add_option("--nodes", a->nodes, "Nodes")->check(CLI::Range(1u, kMostScheduleRanks))->capture_default_str();
  command->add_option("-r,--ranks", a->ranks, "Ranks in all, a multiple of the nodes (default: 8 for each)")
      ->check(CLI::Range(1u, kMostScheduleRanks));
  command->add_option("--ranks-on", a->ranks_on, "Ranks on each node, one number per node, instead of the two above")
      ->check(CLI::Range(0u, kMostScheduleRanks))
      ->excludes(command->get_option("--nodes"))
      ->excludes(command->get_option("--ranks"));
  command->add_flag("--cyclic", a->cyclic, "Ranks are dealt out to nodes in turn, not in blocks");
  command->add_flag("--team", a->team,
                    "The ranks of a node share by their team, as in blocking calls of several nodes, and of one "
                    "node by shmem-parallel and shmem-cyclic");
  command->add_flag("--as-jobs", a->as_jobs, "The same where blocking calls of jobs do so: where it is worth it")
      ->excludes(command->get_option("--team"));
  command->add_option("--root", a->root, "Root rank")->capture_default_str();
  command->add_option("-b,--bytes", a->bytes, "Bytes of the vector, or of one rank's piece")
      ->transform(CLI::AsSizeValue(false))
      ->check(CLI::Range(uint64_t{0}, kMostModelBytes))
      ->capture_default_str();
  command->add_option("--element", a->element_bytes, "Bytes of an element, which is never cut")
      ->check(CLI::Range(1u, 65536u))
      ->capture_default_str();
  command
      ->add_option("-c,--chunk", a->chunk, "Bytes of a chunk, for algorithms that cut (--list --json); 0: do not cut")
      ->transform(CLI::AsSizeValue(false))
      ->check(CLI::Range(uint64_t{0}, kMostModelBytes))
      ->capture_default_str();
  command->add_flag("--ordered", a->ordered, "The operation does not commute");
  command->add_flag("--in-place", a->in_place, "As with MPI_IN_PLACE, where it is allowed");
  command->add_option("--svg", a->svg, "Draw it into this file")->check(&wrong_output);
  add_pricing_options(command, a.get());
  command->add_flag("--no-steps", a->no_steps, "Leave the table of steps out");
  command->add_flag("--list", a->list, "Name the algorithms, of one collective or of all");
  command->add_flag("--json", a->as_json, "Print JSON");
  command->callback([a] { exit_code = schedule(*a); });
}

}  // namespace zh::tools
