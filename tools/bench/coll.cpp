// `zerohop bench coll`: which launches of the benchmark of collectives a round has. How a benchmark runs as a whole is
// command.h's. Measures nothing itself.
#include "tools/bench/coll.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "tools/bench/coll_report.h"
#include "tools/bench/command.h"

namespace zh::tools {
namespace {

constexpr const char* kTimedCollectives =
    "barrier,bcast,reduce,allreduce,gather,scatter,allgather,alltoall,reduce_scatter,reduce_scatter_block,scan,"
    "exscan,gatherv,scatterv,allgatherv,alltoallv,neighbor_allgather,neighbor_alltoall,neighbor_alltoallw";
constexpr const char* kPersistent = "persistent";
const std::vector<std::string> kForms = {"blocking", "nonblocking", kPersistent};

constexpr const char* kCollExamples =
    "  zerohop bench coll --quick               the main ones at four sizes\n"
    "  zerohop bench coll --only bcast,reduce --sizes 8,4K,1M --ranks 2,4,8\n"
    "  zerohop bench coll --form nonblocking,persistent --only allreduce\n"
    "  zerohop bench coll --only neighbor_alltoallw --ranks 2,8\n"
    "  zerohop bench coll --machines 2 --ranks 4 --only bcast      over TCP\n\n"
    "A nonblocking call is I-call and wait, a persistent one start and wait. Each is also measured with a computation\n"
    "between the two that takes as long as the same library's blocking call; what is left is the time beyond it: near "
    "0\n"
    "where all is done meanwhile, near the blocking call's time where nothing is. Collectives of neighborhoods run on "
    "a\n"
    "grid of two dimensions; neighbor_alltoallw is its halo exchange, columns as derived types. Bytes are those of "
    "one\n"
    "block. Every result is verified: a launch with a wrong one is told and left out.";

struct CollOptions {
  BenchOptions bench;
  std::vector<std::string> forms;  ///< none: blocking
};

/// Collectives of one launch: few, so that a round of a group sees one nature of the machine.
std::vector<std::string> coll_groups(const CollOptions& o) {
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

void coll_round(const CollOptions& all, const Hosts& hosts, int round, Rounds* rounds) {
  const BenchOptions& o = all.bench;
  for (const int ranks : o.ranks) {
    for (const std::string& group : coll_groups(all)) {
      const std::vector<std::string> wanted = wanted_of(o, group);
      if (wanted.empty()) continue;
      BenchOptions part = o;
      part.only = joined(wanted);
      rounds->run_group(fmt::format("{} x{}", wanted.back(), ranks), round, o.rounds,
                        plan_launches("coll", part, hosts, ranks));
    }
  }
}

int report_coll(const BenchOptions& o, const Launches& launches) {
  const Judged judged = judge(launches.records, {});
  std::fputs(coll_table_of(judged, repetitions_of(launches.records), o.strict).c_str(), stdout);
  const std::vector<CollSummary> summaries = summaries_of(judged);
  if (!write_judged(o, judged, launches.machine, "bench coll", json_of(summaries))) return 2;
  return o.strict && std::any_of(summaries.begin(), summaries.end(), &misses_goal) ? 1 : 0;
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
  b.sizes = "Comma list of bytes per rank, with K or M";
  b.quick = "Four sizes, the main collectives, one host below zerohop";
  b.usual_pace = {10, 5, 4000, 1};
  b.quick_pace = {6, 3, 2000, 0.3};
  b.run_round = [all](const Hosts& hosts, int round, Rounds* rounds) { coll_round(*all, hosts, round, rounds); };
  b.report = [o](const Launches& launches) { return report_coll(*o, launches); };
  CLI::App* c = add_mpi_bench(bench, o, std::move(b));
  add_ranks_option(*c, o.get());
  add_strict_option(*c, o.get(), "Show the project's goals for the means; exit code 1 when one lies above");
  const std::vector<std::string> names = split(std::string("flat,") + kTimedCollectives);
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
}

}  // namespace zh::tools
