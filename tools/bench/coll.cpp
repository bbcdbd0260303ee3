// `zerohop bench coll`: which launches of the benchmark of collectives a round has, and its table (coll_report.h). How
// a benchmark runs as a whole is command.h's. Measures nothing itself.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "tools/bench/arms.h"
#include "tools/bench/coll_report.h"
#include "tools/bench/command.h"
#include "tools/bench/report.h"
#include "tools/bench/series.h"
#include "tools/cli/text.h"

namespace zh::tools {
namespace {

constexpr const char* kTimedCollectives =
    "barrier,bcast,reduce,allreduce,gather,scatter,allgather,alltoall,reduce_scatter,reduce_scatter_block,scan,"
    "exscan,gatherv,scatterv,allgatherv,alltoallv,neighbor_allgather,neighbor_alltoall,neighbor_alltoallw";
constexpr const char* kStrided = "linear_bcast,binomial_bcast";
constexpr const char* kMatmul = "matmul";
constexpr const char* kPersistent = "persistent";
const std::vector<std::string> kForms = {"blocking", "nonblocking", kPersistent};

constexpr const char* kCollExamples =
    "  zerohop bench coll --quick               the main ones at four sizes\n"
    "  zerohop bench coll --only bcast,reduce --sizes 8,4K,1M --ranks 2,4,8\n"
    "  zerohop bench coll --form nonblocking,persistent --only allreduce\n"
    "  zerohop bench coll --only neighbor_alltoallw --ranks 2,8\n"
    "  zerohop bench coll --machines 2 --ranks 4 --only bcast      over TCP\n"
    "  zerohop bench coll --layout 2x8,2x8:turn --only bcast --arm \"whole:chunk=0\" --arm \"tiles:chunk=8K\"\n"
    "  zerohop bench coll --only matmul --ranks 2,8          rows of a matrix by one allgather\n"
    "  zerohop bench coll --only linear_bcast,binomial_bcast --line near --json shapes.json\n"
    "                                           strided broadcasts, for `zerohop model report`\n\n"
    "A nonblocking call is I-call and wait, a persistent one start and wait. Each is also measured with a computation "
    "between the two that takes as long as the same library's blocking call; what is left is the time beyond it: near "
    "0 where all is done meanwhile, near the blocking call's time where nothing is. Collectives of neighborhoods run "
    "on a grid of two dimensions; neighbor_alltoallw is its halo exchange, columns as derived types. Bytes are those "
    "of one block. Every result is verified: a launch with a wrong one is told and left out.";

constexpr const char* kCollCommand = "bench coll";
constexpr const char* kMean = "time_us";
constexpr const char* kRaw = "flat";

/// What a row is, apart from size and metric.
using RowGroup = std::tuple<std::string, std::string, std::string, int, std::string, std::string>;

std::string mean_text(const MeanRatio& m, int sizes) {
  if (m.sizes == 0) return "-";
  return fmt::format("{:.3f}{}", m.mean, m.sizes == sizes ? "" : fmt::format(" ({} sizes)", m.sizes));
}

nlohmann::json json_of(const MeanRatio& m) {
  return m.sizes == 0 ? nlohmann::json() : nlohmann::json{{"mean", m.mean}, {"sizes", m.sizes}};
}

std::string name_and_variant(const CaseKey& key) { return key.bench + (key.variant.empty() ? "" : " ") + key.variant; }

/// The sizes at which zerohop is slower than `what` by more than 5 %, the whole interval.
std::string slower_than(const Judged& judged, const char* what, Interval Row::*ratio) {
  constexpr double kSlower = 1.05;
  std::string out;
  for (const Row& r : judged.rows) {
    const Interval& i = r.*ratio;
    if (r.key.metric != kMean || r.key.bench == kRaw || !i.valid || i.low <= kSlower) continue;
    out += fmt::format("  {} {} B, {} ranks, {}: {}\n", name_and_variant(r.key), r.key.size, r.key.ranks, r.placement,
                       interval_text(i));
  }
  return out.empty() ? fmt::format("Slower than {} by more than 5 %: no size for certain\n", what)
                     : fmt::format("Slower than {} by more than 5 %:\n{}", what, out);
}

std::string summary_text(const Judged& judged) {
  Table table({"Geometric mean of the ratios over the sizes", "", "", "sizes", "/ best peer", "/ own host"}, 3);
  for (const CollSummary& s : summaries_of(judged)) {
    table.add({name_and_variant(s.key), fmt::format("{} ranks", s.key.ranks),
               fmt::format("{} under {}", s.placement, s.host), std::to_string(s.sizes),
               mean_text(s.to_best_peer, s.sizes), mean_text(s.to_own_host, s.sizes)});
  }
  return table.text();
}

}  // namespace

std::vector<CollSummary> summaries_of(const Judged& judged) {
  std::map<RowGroup, CollSummary> by_group;
  const auto add = [](const Interval& ratio, MeanRatio* logs) {
    if (ratio.mid <= 0) return;
    logs->mean += std::log(ratio.mid);
    ++logs->sizes;
  };
  for (const Row& r : judged.rows) {
    if (r.key.metric != kMean || r.key.bench == kRaw) continue;
    CollSummary& summary = by_group[{r.key.bench, r.key.variant, r.key.buffers, r.key.ranks, r.placement, r.host}];
    summary.key = r.key;
    summary.key.size = 0;
    summary.placement = r.placement;
    summary.host = r.host;
    ++summary.sizes;
    add(r.to_best_peer, &summary.to_best_peer);
    add(r.to_own_host, &summary.to_own_host);
  }
  std::vector<CollSummary> all;
  for (auto& [group, summary] : by_group) {
    for (MeanRatio* m : {&summary.to_best_peer, &summary.to_own_host}) {
      if (m->sizes > 0) m->mean = std::exp(m->mean / m->sizes);
    }
    all.push_back(summary);
  }
  return all;
}

std::string coll_table_of(const Judged& judged) {
  Judged shown = judged;
  std::erase_if(shown.rows, [](const Row& r) { return r.key.metric == "t_min_us"; });
  return table_of(shown, false) + "\n" + summary_text(judged) + "\n" +
         slower_than(judged, "its own host", &Row::to_own_host) +
         slower_than(judged, "the best peer", &Row::to_best_peer) +
         closing_of(judged,
                    "means over the ranks of one rank's block, t_max_us the slowest's; flat: 8 B without MPI; left_us: "
                    "of a call's time when its rank computes between start and wait, computed_us, as long as the "
                    "blocking call takes; sent: by a call, between machines, with all headers");
}

nlohmann::json json_of(const std::vector<CollSummary>& summaries) {
  nlohmann::json all = nlohmann::json::array();
  for (const CollSummary& s : summaries) {
    all.push_back({{"bench", s.key.bench},
                   {"variant", s.key.variant},
                   {"buffers", s.key.buffers},
                   {"ranks", s.key.ranks},
                   {"placement", s.placement},
                   {"host", s.host},
                   {"sizes", s.sizes},
                   {"to_best_peer", json_of(s.to_best_peer)},
                   {"to_own_host", json_of(s.to_own_host)}});
  }
  return all;
}

namespace {

struct CollOptions {
  BenchOptions bench;
  std::vector<std::string> forms;    ///< none: blocking
  std::vector<std::string> layouts;  ///< none: bench.ranks
  LayoutHosts on_machines;
};

bool is_matmul(const CollOptions& o) { return o.bench.only == kMatmul; }
bool is_strided(const CollOptions& o) {
  const std::vector<std::string> named = split(o.bench.only);
  return !named.empty() && wrong_names(split(kStrided), o.bench.only).empty();
}

/// Collectives of one launch: few, so that a round of a group sees one nature of the machine.
std::vector<std::string> coll_groups(const CollOptions& o) {
  if (is_matmul(o)) return {kMatmul};
  if (is_strided(o)) return {o.bench.only};
  const bool main_ones = o.bench.only.empty() && o.bench.quick;
  const std::string raw = o.forms.empty() || contains(o.forms, "blocking") ? "flat," : "";
  const std::string quick = raw + "barrier,bcast,reduce,allreduce,gather,scatter,allgather,alltoall";
  // Persistent collectives are new to some hosts: what fails there must not take the others with it.
  if (contains(o.forms, kPersistent)) return split(main_ones ? quick : raw + kTimedCollectives);
  if (main_ones) return {quick};
  // The raw line belongs to the launches of allreduce.
  return {raw + "barrier,allreduce", "bcast,reduce",         "gather,scatter",
          "allgather,alltoall",      "reduce_scatter_block", "reduce_scatter,scan,exscan",
          "gatherv,scatterv",        "allgatherv,alltoallv", "neighbor_allgather,neighbor_alltoall,neighbor_alltoallw"};
}

struct CollJob {
  std::string layout;  ///< "" of a bare number of ranks
  int ranks = 0;
  const Hosts* hosts = nullptr;
};

/// Null hosts, after a message, where nothing here runs a layout.
std::vector<CollJob> coll_jobs(CollOptions* all, const Hosts& plain) {
  std::vector<CollJob> jobs;
  for (const std::string& text : all->layouts) {
    const JobLayout layout = job_layout_of(text);
    jobs.push_back(
        {text, layout.ranks(), all->on_machines.of(all->bench.hosts, plain, layout, kCollCommand, all->bench.program)});
  }
  if (jobs.empty()) {
    for (const int ranks : all->bench.ranks) jobs.push_back({"", ranks, &plain});
  }
  return jobs;
}

void coll_round(CollOptions* all, const Hosts& plain, int round, Rounds* rounds) {
  const BenchOptions& o = all->bench;
  for (const CollJob& job : coll_jobs(all, plain)) {
    if (job.hosts == nullptr) {
      rounds->note_failure();
      continue;
    }
    for (const std::string& group : coll_groups(*all)) {
      const std::vector<std::string> wanted = wanted_of(o, group);
      if (wanted.empty()) continue;
      BenchOptions part = o;
      part.only = is_matmul(*all) ? "" : joined(wanted);
      const std::string where = job.layout.empty() ? fmt::format("x{}", job.ranks) : job.layout;
      rounds->run_group(fmt::format("{} {}", wanted.back(), where), round, o.rounds,
                        plan_launches(o.program, part, *job.hosts, job.ranks));
    }
  }
}

/// What is wrong with the options as a whole; else completes them.
std::string settle_coll(CollOptions* o) {
  const std::vector<std::string> named = split(o->bench.only);
  if (contains(named, kMatmul) && !is_matmul(*o)) return "matmul is a program of its own: --only matmul";
  if (is_matmul(*o)) o->bench.program = kMatmul;
  for (const std::string& name : split(kStrided)) {
    if (contains(named, name) && !is_strided(*o)) return name + " is no collective: name it with its like alone";
  }
  const SizeRange range = is_matmul(*o) ? SizeRange{.most = 4096, .step = 1} : SizeRange();
  const std::string wrong = o->bench.sizes.empty() ? "" : wrong_sizes(range, o->bench.sizes);
  if (!wrong.empty()) return "--sizes: " + wrong;
  if (o->layouts.empty()) return "";
  o->bench.names_ranks = false;
  return o->bench.hosts.machines > 0 ? "--layout says how many nodes there are, not --machines" : "";
}

nlohmann::json strided_rows(const Judged& judged, const std::vector<LaunchRecord>& launches) {
  nlohmann::json rows = nlohmann::json::array();
  for (const Row& row : judged.rows) {
    const auto one = std::ranges::find_if(launches, [&](const LaunchRecord& r) {
      return r.document.value("ranks", 0) == row.key.ranks && machines_text(r.document) == row.machines;
    });
    const MachineSpread spread = spread_of(one->document);
    rows.push_back({{"collective", "bcast"},
                    {"algorithm", row.key.bench.substr(0, row.key.bench.find('_'))},  // linear_bcast, binomial_bcast
                    {"chunk_bytes", 0},
                    {"bytes", row.key.size},
                    {"stride", static_cast<uint64_t>(row.key.param)},
                    {"ranks", row.key.ranks},
                    {"machines", spread.machines},
                    {"in_turn", spread.in_turn},
                    {"placement", row.placement},
                    {"under", row.host},
                    {"slowest_us", interval_json(row.zerohop)},
                    {"to_host", interval_json(row.to_own_host)}});
  }
  return rows;
}

int report_coll(const CollOptions& all, Launches launches) {
  const BenchOptions& o = all.bench;
  const std::string left_out = left_out_text(launches.records, o.line);
  std::erase_if(launches.records, [&](const LaunchRecord& r) { return !is_at(r, o.line); });
  fmt::print("{}", left_out);
  if (!launches.arms.empty()) return report_arms(o, launches, kCollCommand);
  const Judged judged = judge(launches.records, {});
  if (is_strided(all)) {
    print_shown(table_of(judged, false) + closing_of(judged, "from the root's start to the last rank's end"));
    nlohmann::json document = {{"schema", kAlgorithmsSchema}, {"line", o.line}};
    document["rows"] = strided_rows(judged, launches.records);
    return write_document(o, std::move(document), launches.machine, kCollCommand) ? 0 : 2;
  }
  const std::string of_matmul =
      "of the slowest rank for one multiplication, comm_us in MPI_Allgather; * marks the best peer";
  print_shown(is_matmul(all) ? table_of(judged, false) + closing_of(judged, of_matmul) : coll_table_of(judged));
  return write_judged(o, judged, launches.machine, kCollCommand, json_of(summaries_of(judged))) ? 0 : 2;
}

}  // namespace

void add_bench_coll_command(CLI::App& bench) {
  auto all = std::make_shared<CollOptions>();
  // The options of all benchmarks, which live as long as those of this one.
  const std::shared_ptr<BenchOptions> o(all, &all->bench);
  o->hosts.usual_under = "openmpi,mpich";  // MPICH polls without yielding: a quick run of 8 ranks would be spent on it
  o->timeout_s = 300;
  MpiBench b;
  b.name = "coll";
  b.about = "Host MPIs and zerohop side by side: collectives, in rounds of short launches";
  b.examples = kCollExamples;
  b.sizes = "Comma list of bytes per rank, with K or M; of matmul: orders";
  b.size_range.step = 1;  // settle_coll() knows what is measured
  b.quick = "Four sizes, the main collectives, one host below zerohop";
  b.usual_pace = {10, 5, 4000, 1};
  b.quick_pace = {6, 3, 2000, 0.3};
  b.run_round = [all](const Hosts& hosts, int round, Rounds* rounds) { coll_round(all.get(), hosts, round, rounds); };
  b.check = [all] { return settle_coll(all.get()); };
  b.report = [all](const Launches& launches) { return report_coll(*all, launches); };
  CLI::App* c = add_mpi_bench(bench, o, std::move(b));
  add_ranks_option(*c, o.get());
  const std::vector<std::string> names =
      split(std::string("flat,") + kTimedCollectives + "," + kStrided + "," + kMatmul);
  std::string told;
  for (const std::string& name : names) told += (told.empty() ? "" : ", ") + name;
  c->add_option("--only", o->only, "Comma list of " + told + "; flat: 8 bytes without MPI")
      ->check([names](const std::string& list) { return wrong_names(names, list); });
  c->add_option_function<std::vector<std::string>>(
       "--form",
       [all](const std::vector<std::string>& forms) {
         all->forms = forms;
         all->bench.own_arguments.insert(all->bench.own_arguments.end(), {"--form", joined(forms)});
       },
       "Comma list of blocking, nonblocking, persistent; the last two also with a computation between start and wait")
      ->delimiter(',')
      ->check(CLI::IsMember(kForms))
      ->default_str("blocking");
  c->add_flag_callback(
      "--rotate-root", [o] { o->own_arguments.emplace_back("--rotate-root"); },
      "The root moves on by one rank with every call");
  c->add_option_function<std::string>(
       "--placement",
       [o](const std::string& how) {
         o->own_arguments.insert(o->own_arguments.end(), {"--placement", how});
       },
       "Of more ranks than processors: free (the kernel's choice), block (neighbours on one processor), cyclic (in "
       "turn)")
      ->check(CLI::IsMember({"free", "block", "cyclic"}))
      ->default_str("free");
  c->add_option("--layout", all->layouts,
                "Comma list of nodes x ranks on each instead of --ranks, such as 4x8 or 4x8:turn (ranks dealt out in "
                "turn); nodes are machines as --machines makes them, or those that --mpiexec goes to")
      ->delimiter(',')
      ->check(&wrong_layout);
  add_arm_option(*c, o.get());
  add_line_option(*c, o.get());
}

}  // namespace zh::tools
