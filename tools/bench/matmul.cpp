// `zerohop bench matmul`: which launches of the matrix multiplication a round has. How a benchmark runs as a whole is
// command.h's. Measures nothing itself.
#include "tools/bench/matmul.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "tools/bench/command.h"
#include "tools/bench/report.h"

namespace zh::tools {
namespace {

constexpr const char* kMatmulExamples =
    "The application of the paper on multicore collectives (CCGrid 2008): C = A B, square matrices of doubles by "
    "blocks\n"
    "of rows. Each multiplication gathers B with one MPI_Allgather, which is all it communicates, and then computes "
    "the\n"
    "own rows of C. Every result is verified; a launch with a wrong one is reported and left out.\n\n"
    "  zerohop bench matmul --quick                        three orders, one host below zerohop\n"
    "  zerohop bench matmul --ranks 2 --sizes 64,512 --rounds 20 --json matmul.json --csv matmul.csv\n"
    "  zerohop bench matmul --null                         without zerohop: every ratio must come out at 1\n"
    "  mpiexec -n 8 zerohop bench matmul --json out.json   inside a job: starts nothing, each rank becomes the "
    "program\n\n"
    "Two rows for each order: the whole multiplication, and of it comm_us, the time in MPI_Allgather, both of the\n"
    "slowest rank. The more ranks share the rows, the more of the whole is communication: a small ratio of comm_us "
    "and\n"
    "one near 1 of the whole mean that the computation outweighs it. With more ranks than processors both hold the\n"
    "waiting for a processor, too. Ends with 2 if a launch failed or a file could not be written.";

void matmul_round(const BenchOptions& o, const Hosts& hosts, int round, Rounds* rounds) {
  for (const int ranks : o.ranks) {
    rounds->run_group(fmt::format("matmul x{}", ranks), round, o.rounds, plan_launches("matmul", o, hosts, ranks));
  }
}

int report_matmul(const BenchOptions& o, const Launches& launches) {
  const Judged judged = judge(launches.records, {});
  const std::string times =
      "of the slowest rank for one multiplication, comm_us in MPI_Allgather; * marks the best peer";
  std::fputs((table_of(judged, {}) + closing_of(judged, times)).c_str(), stdout);
  return write_judged(o, judged, launches.machine, "bench matmul") ? 0 : 2;
}

}  // namespace

void add_bench_matmul_command(CLI::App& bench) {
  auto o = std::make_shared<BenchOptions>();
  o->hosts.usual_under = "openmpi,mpich";  // as in bench coll: MPICH polls without yielding
  o->timeout_s = 300;
  MpiBench b;
  b.name = "matmul";
  b.about =
      "Host MPIs and zerohop side by side: a matrix multiplication over MPI_Allgather, in rounds of short launches";
  b.examples = kMatmulExamples;
  b.sizes = "Comma list of orders of the matrices, up to 4096 (default 16,32,64,128,256,512)";
  b.size_range = {.most = 4096, .step = 1};
  b.quick = "Three orders, one host below zerohop";
  b.usual_pace = {10, 5, 4000, 1};
  b.quick_pace = {6, 3, 2000, 0.3};
  b.run_round = [o](const Hosts& hosts, int round, Rounds* rounds) { matmul_round(*o, hosts, round, rounds); };
  b.report = [o](const Launches& launches) { return report_matmul(*o, launches); };
  add_ranks_option(*add_mpi_bench(bench, o, std::move(b)), o.get());
}

}  // namespace zh::tools
