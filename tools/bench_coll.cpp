// `zerohop bench coll`: which launches of the benchmark of collectives a round has. How a benchmark runs as a whole is
// bench_command.h's. Measures nothing itself.
#include "bench_coll.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "bench_coll_report.h"
#include "bench_command.h"

namespace zh::tools {
namespace {

/// Collectives of one launch: few, so that a round of a group sees one nature of the machine.
std::vector<std::string> groups_of(const BenchOptions& o) {
  if (o.only.empty() && o.quick) return {"flat,barrier,bcast,reduce,allreduce,gather,scatter,allgather,alltoall"};
  // The raw line belongs to the launches of allreduce.
  return {"flat,barrier,allreduce", "bcast,reduce",         "gather,scatter",
          "allgather,alltoall",     "reduce_scatter_block", "reduce_scatter,scan,exscan",
          "gatherv,scatterv",       "allgatherv,alltoallv"};
}

void run_round(const BenchOptions& o, const Hosts& hosts, int round, Rounds* rounds) {
  for (const int ranks : o.ranks) {
    for (const std::string& group : groups_of(o)) {
      const std::vector<std::string> wanted = wanted_of(o, group);
      if (wanted.empty()) continue;
      BenchOptions part = o;
      part.only = joined(wanted);
      rounds->run_group(fmt::format("{} x{}", wanted.back(), ranks), round, o.rounds,
                        plan_launches("coll", part, hosts, ranks));
    }
  }
}

int report(const BenchOptions& o, const Launches& launches) {
  const Judged judged = judge(launches.records, {});
  std::fputs(coll_table_of(judged, repetitions_of(launches.records), o.strict).c_str(), stdout);
  const std::vector<CollSummary> summaries = summaries_of(judged);
  if (!write_judged(o, judged, launches.machine, "bench coll", json_of(summaries))) return 2;
  return o.strict && std::any_of(summaries.begin(), summaries.end(), &misses_goal) ? 1 : 0;
}

}  // namespace

void add_bench_coll_command(CLI::App& bench) {
  auto o = std::make_shared<BenchOptions>();
  o->hosts.usual_under = "openmpi,mpich";  // MPICH polls without yielding: a quick run of 8 ranks would be spent on it
  o->timeout_s = 300;
  MpiBench b;
  b.name = "coll";
  b.about = "Host MPIs and zerohop side by side: collectives, in rounds of short launches";
  b.sizes = "Comma list of bytes per rank, with K or M";
  b.quick = "Four sizes, the main collectives, one host below zerohop";
  b.usual_pace = {10, 5, 4000, 1};
  b.quick_pace = {6, 3, 2000, 0.3};
  b.run_round = [o](const Hosts& hosts, int round, Rounds* rounds) { run_round(*o, hosts, round, rounds); };
  b.report = [o](const Launches& launches) { return report(*o, launches); };
  CLI::App* c = add_mpi_bench(bench, o, std::move(b));
  add_ranks_option(*c, o.get());
  add_strict_option(*c, o.get(), "Show the project's goals for the means; exit code 1 when one lies above");
  const std::vector<std::string> names = split(
      "flat,barrier,bcast,reduce,allreduce,gather,scatter,allgather,alltoall,reduce_scatter,reduce_scatter_block,scan,"
      "exscan,gatherv,scatterv,allgatherv,alltoallv");
  c->add_option("--only", o->only, "Comma list of " + joined(names) + "; flat: 8 bytes without MPI")
      ->check([names](const std::string& list) { return wrong_names(names, list); });
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
