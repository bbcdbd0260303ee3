// `zerohop schedule`: shows the schedule of a collective, proves it and draws it. Needs no MPI and no machine of that
// size: schedules are data.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/options.h"
#include "coll/algorithms/algorithms.h"
#include "coll/analysis/check.h"
#include "coll/analysis/draw.h"
#include "coll/analysis/timeline.h"
#include "tools/cli/commands.h"

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
  uint32_t ranks_per_node = 8;
  std::vector<uint32_t> ranks_on;
  uint32_t sockets = 1;
  bool cyclic = false;
  bool team = false;
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
};

// What is shown fits some 4 GiB: a step takes 300 bytes with its proof and its time, a stretch of bytes 100.
constexpr uint32_t kMostScheduleRanks = 131'072;
constexpr uint64_t kMostSteps = 8'000'000;
constexpr uint64_t kMostStretches = 12'000'000;
/// Of a picture.
constexpr uint32_t kMostDrawnRanks = 1024;

int list(const ScheduleArguments& a) {
  json out = json::array();
  for (size_t c = 0; c < static_cast<size_t>(Collective::kCount); ++c) {
    const auto collective = static_cast<Collective>(c);
    if (!a.collective.empty() && a.collective != name_of(collective)) continue;
    if (!a.as_json) std::printf("%s\n", std::string(name_of(collective)).c_str());
    for (const Algorithm& algorithm : coll::algorithms(collective)) {
      out.push_back({{"collective", name_of(collective)},
                     {"algorithm", algorithm.name},
                     {"what", algorithm.what},
                     {"source", algorithm.source}});
      if (a.as_json) continue;
      std::printf("  %-25s %s\n  %-25s   [%s]\n", std::string(algorithm.name).c_str(),
                  std::string(algorithm.what).c_str(), "", std::string(algorithm.source).c_str());
    }
  }
  if (a.as_json) std::printf("%s\n", out.dump(2).c_str());
  return 0;
}

/// Which of parts of these sizes every rank is of, in blocks or in turn; empty if there are no ranks or too many.
std::vector<uint32_t> part_of_ranks(std::vector<uint32_t> sizes, bool cyclic) {
  uint64_t ranks = 0;
  for (const uint32_t size : sizes) ranks += size;
  std::vector<uint32_t> out;
  if (ranks > kMostScheduleRanks) return out;
  if (!cyclic) {
    for (uint32_t node = 0; node < sizes.size(); ++node) out.insert(out.end(), sizes[node], node);
    return out;
  }
  while (out.size() < ranks) {
    for (uint32_t node = 0; node < sizes.size(); ++node) {
      if (sizes[node] == 0) continue;
      --sizes[node];
      out.push_back(node);
    }
  }
  return out;
}

/// Node of every rank; empty if there are none or too many.
std::vector<uint32_t> node_of_ranks(const ScheduleArguments& a) {
  std::vector<uint32_t> sizes = a.ranks_on;
  if (sizes.empty()) sizes.assign(a.nodes, a.ranks_per_node);
  return part_of_ranks(sizes, a.cyclic);
}

/// Socket of every rank of one node: as even as it goes, in blocks or dealt out in turn.
std::vector<uint32_t> socket_of_ranks(const ScheduleArguments& a, uint32_t ranks) {
  std::vector<uint32_t> sizes(a.sockets, ranks / a.sockets);
  for (uint32_t socket = 0; socket < ranks % a.sockets; ++socket) ++sizes[socket];
  return part_of_ranks(sizes, a.cyclic);
}

json step_json(const Step& step, uint32_t index, const Schedule& schedule, coll::Span span) {
  static constexpr const char* kKinds[] = {
      "copy", "reduce", "send", "receive", "give",     "take",  "contribute",    "collect", "part",  "assemble",
      "deal", "pick",   "meet", "combine", "exchange", "trade", "combine parts", "scan",    "exscan"};
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
  std::printf("\nrank step  time      waits for     what\n");
  for (size_t rank = 0; rank < schedules.size(); ++rank) {
    const Schedule& schedule = schedules[rank];
    for (uint32_t i = 0; i < schedule.steps.size(); ++i) {
      std::string waits;
      for (const uint32_t wait : schedule.waits_of(schedule.steps[i])) {
        waits += (waits.empty() ? "" : " ") + std::to_string(wait);
      }
      const coll::Span span = times.spans[rank][i];
      std::printf("%4zu %4u  %3g-%-4g  %-12s  %s\n", rank, i, span.start, span.end, waits.empty() ? "-" : waits.c_str(),
                  describe(schedule.steps[i]).c_str());
    }
  }
}

int refuse_schedule(const std::string& why) {
  std::fprintf(stderr, "zerohop schedule: %s\n", why.c_str());
  return 2;
}

Problem asked_problem(const ScheduleArguments& a, const std::vector<uint32_t>& nodes) {
  Problem problem;
  problem.collective = coll::collective_named(a.collective);
  problem.root = a.root;
  problem.element_bytes = a.element_bytes;
  problem.count = a.bytes / a.element_bytes;
  problem.chunk_bytes = a.chunk;
  problem.commutative = !a.ordered;
  problem.blocks = problem.team = problem.same_length = a.team;
  problem.layout = std::make_shared<const coll::Layout>(nodes);
  if (a.sockets > 1) problem.domains = coll::Layout::of_domains(socket_of_ranks(a, problem.ranks()));
  return problem;
}

/// One algorithm's schedules of all ranks, and what is known of them.
struct Found {
  Problem problem;
  std::string algorithm;
  std::vector<uint32_t> nodes;  ///< by rank
  std::vector<Schedule> schedules;
  coll::Verdict verdict;
  coll::Timeline times;
  /// What messages are timed and drawn by: sockets where there are any. But shared steps are of the whole node.
  [[nodiscard]] const coll::Layout& shown() const {
    return problem.domains != nullptr && !problem.team ? *problem.domains : *problem.layout;
  }
  [[nodiscard]] uint64_t scratch() const {
    uint64_t most = 0;
    for (const Schedule& s : schedules) most = std::max(most, s.scratch_bytes);
    return most;
  }
};

std::string title_of(const ScheduleArguments& a, const Found& f) {
  std::string title = a.collective + " by " + f.algorithm + ": " + std::to_string(f.nodes.size()) + " ranks on " +
                      std::to_string(f.problem.layout->nodes()) + (f.problem.layout->nodes() == 1 ? " node" : " nodes");
  if (f.problem.domains) title += " of " + std::to_string(f.problem.domains->nodes()) + " sockets";
  if (f.problem.collective != Collective::kBarrier) title += ", " + format_size(f.problem.bytes());
  if (a.chunk > 0) title += " in chunks of " + format_size(a.chunk);
  if (coll::has_root(f.problem.collective)) title += ", root " + std::to_string(a.root);
  return title;
}

void print_schedule_json(const ScheduleArguments& a, const Found& f) {
  const Algorithm& algorithm = *coll::algorithm(f.problem.collective, f.algorithm);
  json out = {{"collective", a.collective},
              {"algorithm", f.algorithm},
              {"what", algorithm.what},
              {"source", algorithm.source},
              {"node_of_rank", f.nodes},
              {"sockets", f.problem.domains ? f.problem.domains->nodes() : 1},
              {"bytes", f.problem.bytes()},
              {"chunk_bytes", f.problem.chunk_bytes},
              {"root", f.problem.root},
              {"proved", f.verdict.proved()},
              {"fault", f.verdict.fault},
              {"messages", f.verdict.messages},
              {"message_bytes", f.verdict.message_bytes},
              {"messages_between_nodes", f.verdict.node_messages},
              {"bytes_between_nodes", f.verdict.node_bytes},
              {"messages_between_sockets", f.verdict.domain_messages},
              {"bytes_between_sockets", f.verdict.domain_bytes},
              {"scratch_bytes", f.scratch()},
              {"logical_time", f.times.end},
              {"ranks", json::array()}};
  for (size_t rank = 0; rank < f.schedules.size() && !a.no_steps && f.verdict.proved(); ++rank) {
    json steps = json::array();
    for (uint32_t i = 0; i < f.schedules[rank].steps.size(); ++i) {
      steps.push_back(step_json(f.schedules[rank].steps[i], i, f.schedules[rank], f.times.spans[rank][i]));
    }
    out["ranks"].push_back(std::move(steps));
  }
  std::printf("%s\n", out.dump(2).c_str());
}

void print_schedule_text(const ScheduleArguments& a, const Found& f, const std::string& title) {
  const Algorithm& algorithm = *coll::algorithm(f.problem.collective, f.algorithm);
  std::printf("%s\n%s [%s]\n\n", title.c_str(), std::string(algorithm.what).c_str(),
              std::string(algorithm.source).c_str());
  const coll::Verdict& v = f.verdict;
  const bool divided = f.problem.domains != nullptr;
  std::printf("%llu steps, %llu messages of %s in all, between %s %llu of %s; scratch %s on a rank; logical time %g\n",
              static_cast<unsigned long long>(v.steps), static_cast<unsigned long long>(v.messages),
              format_size(v.message_bytes).c_str(), divided ? "sockets" : "nodes",
              static_cast<unsigned long long>(divided ? v.domain_messages : v.node_messages),
              format_size(divided ? v.domain_bytes : v.node_bytes).c_str(), format_size(f.scratch()).c_str(),
              f.times.end);
  if (!f.verdict.proved()) {
    std::printf("WRONG: %s\n", f.verdict.fault.c_str());
    return;
  }
  std::printf("proved: no deadlock with any mix of eager and synchronous sends, no race, the right bytes everywhere\n");
  if (!a.svg.empty()) std::printf("drawn in %s\n", a.svg.c_str());
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

/// Every rank's own schedule, and the proof of all of them together. Says why not, "" if all is there.
std::string find(const std::vector<Problem>& problems, Found* f) {
  uint64_t steps = 0;
  f->schedules.reserve(problems.size());
  for (const Problem& problem : problems) {
    if (const Status s = coll::build(problem, f->algorithm, &f->schedules.emplace_back()); !s.ok()) {
      return std::string(s.what()) + "; `zerohop schedule --list " + std::string(name_of(problem.collective)) +
             "` names the algorithms";
    }
    steps += f->schedules.back().steps.size();
    if (steps > kMostSteps) {
      return "the schedules of " + std::to_string(problems.size()) + " ranks have more than " +
             std::to_string(kMostSteps) + " steps: fewer ranks, larger chunks or another algorithm, please";
    }
  }
  f->verdict = coll::check(problems, f->schedules, {kMostStretches});
  if (f->verdict.gave_up) return "not proved, since " + f->verdict.fault;
  if (f->verdict.proved()) f->times = coll::timeline(f->schedules, f->shown(), coll::logical_prices());
  return "";
}

int schedule(const ScheduleArguments& a) {
  const Collective collective = coll::collective_named(a.collective);
  if (collective == Collective::kCount && (!a.list || !a.collective.empty())) {
    return refuse_schedule("no collective '" + a.collective + "'; `zerohop schedule --list` names them");
  }
  if (a.list) return list(a);
  Found f;
  f.nodes = node_of_ranks(a);
  if (f.nodes.empty()) return refuse_schedule("1 to " + std::to_string(kMostScheduleRanks) + " ranks, please");
  if (a.root >= f.nodes.size()) return refuse_schedule("there is no rank " + std::to_string(a.root));
  if (a.sockets > 1 && std::ranges::any_of(f.nodes, [](uint32_t node) { return node != 0; })) {
    return refuse_schedule("--sockets divides the ranks of one node");
  }
  if (!a.svg.empty() && f.nodes.size() > kMostDrawnRanks) {
    return refuse_schedule("a picture has " + std::to_string(kMostDrawnRanks) + " ranks at most, not " +
                           std::to_string(f.nodes.size()) + ": leave --svg out");
  }
  f.problem = asked_problem(a, f.nodes);
  f.algorithm = a.algorithm.empty() ? std::string(coll::choose(f.problem)) : a.algorithm;
  if (const std::string why = find(problems_of(a, f.problem), &f); !why.empty())
    return refuse_schedule(f.algorithm + ": " + why);
  const std::string title = title_of(a, f);
  if (!a.svg.empty() && f.verdict.proved()) {
    if (!write_file(a.svg, coll::draw(f.schedules, f.shown(), f.times, title), "schedule")) return 2;
  }
  if (a.as_json) {
    print_schedule_json(a, f);
  } else {
    print_schedule_text(a, f, title);
  }
  return f.verdict.proved() ? 0 : 1;
}

}  // namespace

void add_schedule_command(CLI::App& app) {
  auto a = std::make_shared<ScheduleArguments>();
  CLI::App* command = app.add_subcommand("schedule", "The steps of a collective: shown, proved and drawn.");
  command->footer(
      "A collective of several steps is described once, as a schedule: copies, reductions and messages of every rank,\n"
      "and which of them wait for which. The library runs it; this command proves it and shows it, for any number of\n"
      "ranks and nodes up to 131072 ranks, or 8 million steps of all of them. Sizes may be written 64K or 1M.\n\n"
      "  zerohop schedule --list                                  all collectives and algorithms\n"
      "  zerohop schedule allreduce --nodes 4                     what zerohop would choose\n"
      "  zerohop schedule bcast --algorithm leader-ring --nodes 4 --ranks-per-node 2 --chunk 8K --svg ring.svg\n"
      "  zerohop schedule bcast -a leader-ring-domains -r 16 --sockets 2\n"
      "                                                           leaders of sockets\n"
      "  zerohop schedule scan --ranks-on 3 1 4 --no-steps        unequal nodes, the verdict alone\n"
      "  zerohop schedule bcast -n 1000 -r 128 --no-steps         128,000 ranks; some seconds\n\n"
      "Time in the table and the picture is logical: a copy, reduction or shared step takes 1, a message inside a\n"
      "node or socket 2, one between them 4, a step of N leaders log2 N times 4. Ends with 0 if the schedule is "
      "proved,\n"
      "1 if a fault was found, 2 if there is none to prove or it is too large.");
  command->add_option("collective", a->collective, "bcast, allreduce, ... (see --list)");
  command->add_option("-a,--algorithm", a->algorithm, "By name (see --list); otherwise zerohop's choice");
  command->add_option("-n,--nodes", a->nodes, "Nodes")
      ->check(CLI::Range(1u, kMostScheduleRanks))
      ->capture_default_str();
  command->add_option("-r,--ranks-per-node", a->ranks_per_node, "Ranks on each")
      ->check(CLI::Range(1u, kMostScheduleRanks))
      ->capture_default_str();
  command->add_option("--ranks-on", a->ranks_on, "Ranks on each node, one number per node, instead of the two above")
      ->check(CLI::Range(0u, kMostScheduleRanks));
  command->add_option("--sockets", a->sockets, "Sockets of one node, for algorithms that end in -domains")
      ->check(CLI::Range(1u, kMostScheduleRanks))
      ->capture_default_str();
  command->add_flag("--cyclic", a->cyclic, "Ranks are dealt out to nodes, or sockets, in turn, not in blocks");
  command->add_flag("--team", a->team,
                    "The ranks of a node share by their team, as in blocking calls of several nodes");
  command->add_option("--root", a->root, "Root rank")->capture_default_str();
  command->add_option("-b,--bytes", a->bytes, "Bytes of the vector, or of one rank's piece")
      ->transform(CLI::AsSizeValue(false))
      ->capture_default_str();
  command->add_option("--element", a->element_bytes, "Bytes of an element, which is never cut")
      ->check(CLI::Range(1u, 65536u))
      ->capture_default_str();
  command->add_option("-c,--chunk", a->chunk, "Bytes of a chunk, for algorithms that pipeline; 0: do not cut")
      ->transform(CLI::AsSizeValue(false))
      ->capture_default_str();
  command->add_flag("--ordered", a->ordered, "The operation does not commute");
  command->add_flag("--in-place", a->in_place, "As with MPI_IN_PLACE, where it is allowed");
  command->add_option("--svg", a->svg, "Draw it into this file");
  command->add_flag("--no-steps", a->no_steps, "Leave the table of steps out");
  command->add_flag("--list", a->list, "Name the algorithms, of one collective or of all");
  command->add_flag("--json", a->as_json, "Print JSON");
  command->callback([a] { exit_code = schedule(*a); });
}

}  // namespace zh::tools
