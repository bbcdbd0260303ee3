// `zerohop bench coll`: starts the MPI benchmark program of collectives in rounds of short launches and hands the
// documents to the judge. Inside a job that somebody else started it starts nothing: each rank becomes the benchmark
// program. Measures nothing itself.
#include "bench_coll.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "bench_coll_report.h"
#include "bench_judge.h"
#include "bench_report.h"
#include "bench_rounds.h"

namespace zh::tools {
namespace {

struct Options {
  HostOptions hosts;
  std::string only;
  std::string sizes;
  std::string buffers = "malloc";
  std::string ranks = "2,8";
  std::string json_path;
  std::string csv_path;
  std::string launches_path;
  std::string rejudge_path;
  int rounds = 0;
  int blocks = 0;
  double block_us = 0;
  double case_s = 0;
  double timeout_s = 300;
  bool rotate_root = false;
  bool quick = false;
  bool null_test = false;
};

/// Launches of one group are compared with each other: short, so that a round of a group sees one nature of the
/// machine.
struct Group {
  std::string name;
  std::string only;
  int ranks = 2;
};

std::vector<Group> groups_of(const Options& o) {
  const std::vector<std::string> wanted = split(o.only);
  // The raw line belongs to the launches of allreduce.
  std::vector<std::string> parts = {"flat,barrier,allreduce", "bcast,reduce",         "gather,scatter",
                                    "allgather,alltoall",     "reduce_scatter_block", "reduce_scatter,scan,exscan",
                                    "gatherv,scatterv",       "allgatherv,alltoallv"};
  if (wanted.empty() && o.quick) parts = {"flat,barrier,bcast,reduce,allreduce,gather,scatter,allgather,alltoall"};
  std::vector<Group> chosen;
  for (const std::string& ranks : split(o.ranks)) {
    for (const std::string& part : parts) {
      std::vector<std::string> benches = split(part);
      if (!wanted.empty()) std::erase_if(benches, [&](const std::string& b) { return !contains(wanted, b); });
      if (benches.empty()) continue;
      chosen.push_back({fmt::format("{} x{}", benches.back(), ranks), joined(benches), std::stoi(ranks)});
    }
  }
  return chosen;
}

PlannedLaunch launch_of(const Options& o, const Group& g, const BenchHost& host, bool zerohop,
                        const std::string& folder) {
  PlannedLaunch p{&host, zerohop, "", {}};
  LaunchSpec& s = p.spec;
  s.host = &host;
  s.ranks = g.ranks;
  s.timeout_s = o.timeout_s;
  s.zerohop = zerohop && !o.null_test;
  if (s.zerohop) s.program = {folder + "/zerohop", "run"};
  const int blocks = o.blocks > 0 ? o.blocks : o.quick ? 3 : 5;
  const double block_us = o.block_us > 0 ? o.block_us : o.quick ? 2000 : 4000;
  const double case_s = o.case_s > 0 ? o.case_s : o.quick ? 0.3 : 1;
  s.program.insert(s.program.end(), {fmt::format("{}/bench_coll_{}", folder, host.abi), "--label", host.name, "--only",
                                     g.only, "--buffers", o.buffers, "--arms", zerohop ? "host,zerohop,host" : "host",
                                     "--blocks", std::to_string(blocks), "--block-us", fmt::format("{:.0f}", block_us),
                                     "--case-s", fmt::format("{:g}", case_s)});
  if (!o.sizes.empty()) s.program.insert(s.program.end(), {"--sizes", o.sizes});
  if (o.rotate_root) s.program.emplace_back("--rotate-root");
  if (o.quick) s.program.emplace_back("--quick");
  return p;
}

int report(const Options& o, const std::vector<LaunchRecord>& records) {
  const Judged judged = judge(records, {});
  std::fputs(coll_table_of(judged, repetitions_of(records)).c_str(), stdout);
  bool written = true;
  if (!o.json_path.empty()) {
    nlohmann::json document = json_of(judged);
    document["summary"] = json_of(summaries_of(judged));
    written &= write_file(o.json_path, document.dump(1) + "\n", "coll");
  }
  if (!o.csv_path.empty()) written &= write_file(o.csv_path, csv_of(judged), "coll");
  return written ? 0 : 2;
}

int become_program(const Options& o) {
  std::vector<std::string> arguments = {"--buffers", o.buffers};
  if (!o.only.empty()) arguments.insert(arguments.end(), {"--only", o.only});
  if (!o.sizes.empty()) arguments.insert(arguments.end(), {"--sizes", o.sizes});
  if (!o.json_path.empty()) arguments.insert(arguments.end(), {"--out", o.json_path});
  if (o.rotate_root) arguments.emplace_back("--rotate-root");
  if (o.quick) arguments.emplace_back("--quick");
  return become_benchmark("coll", o.hosts.abi, arguments);
}

int bench_coll(const Options& o) {
  if (!o.rejudge_path.empty()) {
    nlohmann::json all;
    const auto records = read_launches(o.rejudge_path, "coll", &all);
    return records ? report(o, *records) : 2;
  }
  if (in_a_job()) return become_program(o);
  const auto hosts = choose_hosts(o.hosts, false, "coll");
  if (!hosts) return 2;
  // --quick carries zerohop under one host: the first that was named.
  std::vector<BenchHost> under = hosts->under;
  if (o.quick && o.hosts.mpiexec.empty()) {
    const std::string first = split(o.hosts.under).front();
    if (std::erase_if(under, [&](const BenchHost& h) { return h.name != first; }); under.empty()) under = hosts->under;
  }
  const std::vector<Group> groups = groups_of(o);
  const std::string folder = own_folder();
  const int count = o.rounds > 0 ? o.rounds : o.quick ? 6 : 10;
  Rounds rounds;
  for (int round = 0; round < count; ++round) {
    for (const Group& g : groups) {
      std::vector<PlannedLaunch> planned;
      for (const BenchHost& h : hosts->peers) planned.push_back(launch_of(o, g, h, false, folder));
      for (const BenchHost& h : under) planned.push_back(launch_of(o, g, h, true, folder));
      rounds.run_group(g.name, round, count, std::move(planned));
    }
  }
  if (!o.launches_path.empty() && !write_launches(o.launches_path, rounds.records(), "coll")) return 2;
  const int code = report(o, rounds.records());
  if (rounds.failures() > 0)
    fmt::print(stderr, "zerohop bench coll: {} launches failed and are not in the table\n", rounds.failures());
  return code != 0 ? code : rounds.failures() > 0 ? 2 : 0;
}

bool is_rank_list(const std::string& list) {
  const std::vector<std::string> words = split(list);
  for (const std::string& w : words) {
    if (w.size() > 3 || w.find_first_not_of("0123456789") != std::string::npos || std::stoi(w) < 2) return false;
  }
  return !words.empty();
}

}  // namespace

void add_bench_coll_command(CLI::App& bench) {
  auto o = std::make_shared<Options>();
  o->hosts.under = "openmpi,mpich";  // MPICH polls without yielding: a quick run of 8 ranks would be spent on it
  CLI::App* c =
      bench.add_subcommand("coll", "Host MPIs and zerohop side by side: collectives, in rounds of short launches");
  add_host_options(*c, &o->hosts);
  c->add_option("--ranks", o->ranks, "Comma list of numbers of ranks")
      ->capture_default_str()
      ->check([](const std::string& list) {
        return is_rank_list(list) ? std::string() : "not a list of numbers from 2 to 999: " + list;
      });
  c->add_option("--rounds", o->rounds, "Rounds (default 10; 6 with --quick; fewer than 6 resolve nothing)");
  c->add_flag("--quick", o->quick, "Four sizes, the main collectives, one host below zerohop");
  c->add_option(
      "--only", o->only,
      "Comma list: flat (8 bytes without MPI), barrier, bcast, reduce, allreduce, gather, scatter, allgather, "
      "alltoall, reduce_scatter, reduce_scatter_block, scan, exscan, gatherv, scatterv, allgatherv, "
      "alltoallv");
  c->add_option("--sizes", o->sizes, "Comma list of bytes per rank, with K or M");
  c->add_option("--buffers", o->buffers, "malloc, static, alloc_mem")->capture_default_str();
  c->add_flag("--rotate-root", o->rotate_root, "The root moves on by one rank with every call");
  c->add_option("--json", o->json_path, "Write the judged rows as JSON");
  c->add_option("--csv", o->csv_path, "Write the judged rows as CSV");
  c->add_option("--launches", o->launches_path, "Write every launch's document, for --rejudge");
  c->add_option("--rejudge", o->rejudge_path, "Judge the launches of an earlier run again; starts nothing");
  c->add_option("--blocks", o->blocks, "Blocks of each arm per case and launch");
  c->add_option("--block-us", o->block_us, "Aimed length of a block in microseconds");
  c->add_option("--case-s", o->case_s, "No further block of a case that has taken this many seconds");
  c->add_option("--timeout", o->timeout_s, "Seconds after which a launch is ended")->capture_default_str();
  c->add_flag("--null", o->null_test, "Run everything without zerohop: every ratio must come out at 1");
  c->final_callback([o] {
    const int code = bench_coll(*o);
    if (code != 0) throw CLI::RuntimeError(code);
  });
}

}  // namespace zh::tools
