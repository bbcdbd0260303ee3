// See tune.h.
#include "tools/tune/tune.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/options.h"
#include "os/affinity.h"
#include "tools/bench/command.h"
#include "tools/bench/level_pairs.h"
#include "tools/bench/machine_load.h"
#include "tools/bench/report.h"
#include "tools/bench/rounds.h"
#include "tools/cli/commands.h"
#include "tools/cli/text.h"
#include "tools/model/profile.h"
#include "tools/tune/contention.h"
#include "tools/tune/message_costs.h"
#include "tools/tune/tuned_profile.h"
#include "tune/caches.h"
#include "tune/profile.h"

namespace zh::tools {
namespace {

using model::Parameters;
using TuneClock = std::chrono::steady_clock;

constexpr int kCannotKeep = 1;
constexpr int kCannotMeasure = 2;
constexpr const char* kTuneCommand = "tune";
constexpr const char* kBetweenNodes = "other-node";
constexpr const char* kTwoPairs = "two pairs";
constexpr int kPairRanks = 4;

void print_costs(const std::string& where, const MessageCosts& measured) {
  fmt::print("{}: {} launches, {}", where, measured.launches, measured.placement);
  if (measured.line_us > 0) fmt::print(" (a cache line from one rank to the other: {:.3f} µs)", measured.line_us);
  if (measured.left_out > 0) fmt::print("; {} launches at another placement left out", measured.left_out);
  // Contiguous: half of a message's time, inside a node the overhead o at each end. Strided, such as 4K8S (4 KiB at a
  // stride of 8 bytes): the latency l at each end, what the stride costs more.
  Table table({"  shape", "µs at each end [95 % interval]", ""}, 1);
  for (const MessageCost& cost : measured.costs)
    table.add({"  " + name_of(cost), interval_text(cost.us), cost.noisy() ? "noisy" : ""});
  for (const auto& [what, costs] : {std::pair{", sender busy", &measured.busy}, std::pair{", gap", &measured.gaps}}) {
    for (const MessageCost& cost : *costs)
      table.add({"  " + name_of(cost) + what, interval_text(cost.us), cost.noisy() ? "noisy" : ""});
  }
  fmt::print("\n{}\n", table.text());
}

void print_facts(const MachineMeasured& m) {
  Table caches({"caches, as one process may use them", "", "of", ""});
  for (const model::CacheSize& c : m.caches) {
    caches.add({"  " + c.name,
                c.measured == 0 ? "not found" : (c.at_least ? "at least " : "") + format_size(c.measured),
                c.described == 0 ? "" : format_size(c.described), c.noisy ? "noisy" : ""});
  }
  const auto from = [](const std::optional<uint64_t>& size) {
    return !size ? std::string("?") : *size == model::kNeverWins ? "never" : format_size(*size);
  };
  Table copies({"copies, from which size on", "non-temporal stores", "both ends, kernel", "both ends, mapped"});
  for (const model::CopyThresholds& c : m.copies)
    copies.add({"  " + c.level, from(c.nontemporal), from(c.kernel_both), from(c.mapped_both)});
  fmt::print("{}{}", caches.text(), copies.empty() ? "" : copies.text());
  if (!m.contention.empty()) fmt::print("readers of one rank's memory at once: µs of the slowest\n");
  for (const model::Contention& c : m.contention) {
    fmt::print("  {:<8} {:>5}", c.way, format_size(c.bytes));
    for (const auto& [readers, us] : c.us) fmt::print("  {} of {}", number_text(us), readers);
    fmt::print("{}\n", c.noisy ? "  noisy" : "");
  }
  fmt::print("\n");
}

/// What is known of the machine before anything is measured.
struct TunePlan {
  node::Machine machine;
  os::CpuSet allowed;
  std::vector<LevelPair> pairs;
  ModelLevels levels;

  [[nodiscard]] const LevelPair& intra_chip() const {
    return *std::find_if(pairs.begin(), pairs.end(), [&](const LevelPair& p) { return p.level == levels.intra_chip; });
  }
};

std::string wrong_with_tune(const Options& options, TunePlan* plan) {
  const Status status = plan->machine.load(options.get_text(Opt::kTopology));
  if (!status.ok()) return status.what();
  plan->allowed = os::allowed_cpus();
  plan->pairs = plan_pairs(plan->machine, plan->allowed);
  plan->levels = model_levels(plan->machine.summary(), plan->pairs);
  if (plan->pairs.empty()) {
    return fmt::format("two processors are needed, and this process may use {} (taskset, a container's limits)",
                       plan->allowed.to_string());
  }
  for (const LevelPair& p : plan->pairs)
    fmt::print(stderr, "zerohop tune: distance {}: processors {} and {}\n", node::to_string(p.level), p.first,
               p.second);
  return "";
}

/// `processors`: for the ranks, in their order; empty: wherever they are put.
PlannedLaunch strided_launch(const BenchHost& host, const std::string& setting, std::span<const uint32_t> processors,
                             int ranks = 2) {
  BenchOptions b;
  b.only = "strided";
  b.blocks = 5;
  b.block_us = 2000;
  if (!processors.empty()) b.own_arguments = {"--processors", fmt::format("{}", fmt::join(processors, ","))};
  PlannedLaunch launch = plan_launch("p2p", b, host, ranks, kZerohopArm);
  launch.setting = setting;
  return launch;
}

/// How nodes are reached.
struct Nodes {
  Hosts hosts;      ///< which put the ranks of a job on different ones
  std::string how;  ///< empty: not at all
};

std::optional<Nodes> choose_nodes(const MeasureOptions& o) {
  Nodes nodes;
  HostOptions options = o.hosts;
  if (o.hosts.machines > 0) {
    nodes.how = "machines made of namespaces of this one, messages by the host over TCP";
  } else if (!o.between.empty()) {
    options.mpiexec = o.between;
    nodes.how = fmt::format("nodes of `{}`, messages by the host", o.between);
  } else {
    return nodes;
  }
  const std::optional<Hosts> hosts = choose_hosts(options, true, kTuneCommand, "p2p");
  if (!hosts) return std::nullopt;
  nodes.hosts = *hosts;
  return nodes;
}

std::array<uint32_t, 2> both(const LevelPair& pair) { return {pair.first, pair.second}; }

std::vector<PlannedLaunch> tune_launches(const MeasureOptions& o, const TunePlan& plan, const BenchHost& host,
                                         Nodes* nodes) {
  std::vector<PlannedLaunch> launches;
  for (const LevelPair& p : plan.pairs) launches.push_back(strided_launch(host, node::to_string(p.level), both(p)));
  const std::array<uint32_t, 2> pair = both(plan.intra_chip());
  if (o.pretend_nodes) {
    launches.push_back(strided_launch(host, kBetweenNodes, pair));
    launches.back().spec.settings["node_ranks"] = "1";
    nodes->how = "pretended nodes of one rank, messages by the host inside the machine";
  } else if (o.hosts.machines > 0) {
    // Machines made of namespaces have this one's processors.
    const BenchHost& apart = nodes->hosts.under.front();
    launches.push_back(strided_launch(apart, kBetweenNodes, pair));
    const std::vector<uint32_t> all = numbers_of(plan.allowed);
    if (all.size() >= kPairRanks)
      launches.push_back(strided_launch(apart, kTwoPairs, std::span(all).first(kPairRanks), kPairRanks));
  } else if (!nodes->how.empty()) {
    launches.push_back(strided_launch(nodes->hosts.under.front(), kBetweenNodes, {}));
    if (o.link) launches.push_back(strided_launch(nodes->hosts.under.front(), kTwoPairs, {}, kPairRanks));
  }
  return launches;
}

/// Of 8 rounds those beyond the sixth, which alone give an interval, are made only while there is time.
void run_rounds(const MeasureOptions& o, const std::vector<PlannedLaunch>& launches, LoadWatch* watch, Rounds* rounds) {
  constexpr int kEnough = 6;
  constexpr int kMostRounds = 8;
  constexpr std::chrono::seconds kLong{45};
  const TuneClock::time_point start = TuneClock::now();
  const int most = o.rounds > 0 ? o.rounds : kMostRounds;
  rounds->set_counting(true);
  rounds->run_group("strided", 0, most, launches);
  rounds->set_counting(false);
  for (int round = 0; round < most && rounds->failures() == 0; ++round) {
    const bool slow = o.rounds == 0 && round > 0 && (TuneClock::now() - start) / round * kEnough > kLong;
    if (slow && round >= kEnough) break;
    rounds->run_group("strided", round, slow ? kEnough : most, launches);
    watch->look();
  }
}

/// `pair`: only launches whose ranks were there. `placement`: of that alone, unless it is empty.
MessageCosts costs_of(const Rounds& rounds, const std::string& setting, const LevelPair* pair,
                      const std::string& placement) {
  std::vector<LaunchRecord> records = rounds.launches().records;
  std::vector<int> processors;
  if (pair != nullptr) processors = {static_cast<int>(pair->first), static_cast<int>(pair->second)};
  std::sort(processors.begin(), processors.end());  // the first rank takes the one of the lower number
  std::erase_if(records, [&](const LaunchRecord& r) {
    const nlohmann::json& d = r.document;
    return r.setting != setting || (!placement.empty() && d.value("placement", "") != placement) ||
           (pair != nullptr && d.value("cpus", std::vector<int>{}) != processors);
  });
  return message_costs_of(records);
}

std::vector<model::CacheSize> measure_caches(const TunePlan& plan, Progress* progress) {
  const node::Machine::Summary& s = plan.machine.summary();
  const tune::CacheBytes described = {s.l1d_bytes, s.l2_bytes, s.l3_bytes};
  constexpr uint64_t kLeast = 32 << 20;
  constexpr uint64_t kMost = 256 << 20;
  constexpr int kPasses = 5;
  const uint64_t room = os::cgroup_memory(os::find_cgroup()).headroom() / 4;
  const uint64_t last = std::min(room, std::clamp(2 * std::max(s.l2_bytes, s.l3_bytes), kLeast, kMost));
  progress->show(fmt::format("caches, reading up to {} on processor {}", format_size(last), plan.intra_chip().first));
  (void)os::bind_to(only(plan.intra_chip().first));
  const std::vector<tune::ReadCurve> passes = tune::sweep_reads(last, kPasses);
  (void)os::bind_to(plan.allowed);
  return cache_sizes(tune::caches_of(passes, described), described);
}

/// Processors that share no core with an earlier one; those that share a cache are neighbours.
std::vector<uint32_t> cores_of(const TunePlan& plan) {
  std::vector<uint32_t> cores;
  for (const uint32_t cpu : in_order(plan.machine, plan.allowed)) {
    const auto shares = [&](uint32_t other) {
      return plan.machine.level(only(cpu), only(other)) == node::Level::kSameCore;
    };
    if (std::ranges::none_of(cores, shares)) cores.push_back(cpu);
  }
  return cores;
}

std::vector<model::CopyThresholds> known_copies(const Options& options) {
  const tune::KeptFolders folders = tune::kept_folders(options);
  tune::Profile profile;
  if (!tune::load_profile(folders, tune::this_machine(), &profile).ok()) return {};
  return copy_thresholds(profile);
}

/// What the launches say; the problem with them, or "".
std::string gather(const Rounds& rounds, const TunePlan& plan, const Nodes& nodes, bool asks_link, MachineMeasured* m) {
  m->levels = plan.levels;
  for (const LevelPair& p : plan.pairs) m->pairs.push_back({p, costs_of(rounds, node::to_string(p.level), &p, "")});
  const PairMeasured& intra = *m->at(plan.levels.intra_chip);
  if (intra.costs.launches == 0) {
    return fmt::format(
        "no launch kept its ranks on the processors {} and {}, at one placement, to its end; run it again",
        intra.pair.first, intra.pair.second);
  }
  if (nodes.how.empty()) return "";
  const bool pretended = nodes.hosts.under.empty();
  const std::string placement = pretended ? intra.costs.placement : "several";
  m->between = NodesMeasured{nodes.how, costs_of(rounds, kBetweenNodes, nullptr, placement),
                             costs_of(rounds, kTwoPairs, nullptr, placement)};
  const bool no_link = asks_link && m->between->two_pairs.gaps.empty();
  if (no_link) return "the launcher put no two ranks on each of two nodes, as --link needs";
  if (m->between->costs.launches > 0) return "";
  return pretended ? "no launch between nodes kept one placement to its end; run it again"
                   : "both ranks of the launches between nodes lay on one node: let the launcher put one on each";
}

void print_tuned(const MachineMeasured& m) {
  for (const PairMeasured& p : m.pairs) {
    if (p.costs.launches == 0) continue;
    print_costs(fmt::format("{}, processors {} and {}", node::to_string(p.pair.level), p.pair.first, p.pair.second),
                p.costs);
  }
  if (m.between) print_costs("between nodes: " + m.between->how, m.between->costs);
  if (m.between && m.between->two_pairs.launches > 0) print_costs("two pairs between nodes", m.between->two_pairs);
  print_facts(m);
}

}  // namespace

int measure_profile(const MeasureOptions& o) {
  std::string problem;
  const std::optional<Parameters> base = find_profile(o.base, &problem);
  if (!base) return refuse(kTuneCommand, problem, kCannotMeasure);
  Options options;
  options.read_environment(environ);
  HostOptions here = o.hosts;
  here.machines = 0;
  const std::optional<Hosts> hosts = choose_hosts(here, true, kTuneCommand, "p2p");
  if (!hosts) return kCannotMeasure;
  std::optional<Nodes> nodes = choose_nodes(o);
  if (!nodes) return kCannotMeasure;
  TunePlan plan;
  problem = wrong_with_tune(options, &plan);
  if (!problem.empty()) return refuse(kTuneCommand, problem, kCannotMeasure);
  LoadWatch watch(kTuneCommand);
  MachineMeasured m;
  m.host = hosts->under.front().name;
  m.date = today();
  m.machine = tune::this_machine();
  m.processors = static_cast<uint32_t>(plan.allowed.count());
  Rounds rounds(kTuneCommand);
  m.caches = measure_caches(plan, &rounds.progress());
  rounds.progress().show("readers of one rank's memory at once");
  m.contention = measure_contention(cores_of(plan));
  watch.look();
  run_rounds(o, tune_launches(o, plan, hosts->under.front(), &*nodes), &watch, &rounds);
  rounds.progress().clear();
  if (rounds.failures() > 0) return refuse(kTuneCommand, "a launch failed, so nothing is written", kCannotMeasure);
  problem = gather(rounds, plan, *nodes, o.link, &m);
  if (!problem.empty()) return refuse(kTuneCommand, problem, kCannotKeep);
  m.copies = known_copies(options);
  print_tuned(m);
  if (watch.load().busy_during()) {
    std::fflush(stdout);
    return refuse(kTuneCommand, "nothing is written, such times are not the machine's. " + run_line_of(watch.load()),
                  kCannotKeep);
  }
  const Parameters parameters = parameters_of(m, *base);
  const std::string fault = parameters.fault();
  if (!fault.empty()) return refuse(kTuneCommand, "the costs make no profile: " + fault, kCannotKeep);
  if (!write_file(o.json_path, profile_json(parameters).dump(2) + "\n", kTuneCommand)) return kCannotMeasure;
  fmt::print("\nWritten: {}\n  zerohop schedule bcast --no-steps --profile {}\n", o.json_path, o.json_path);
  return 0;
}

}  // namespace zh::tools
