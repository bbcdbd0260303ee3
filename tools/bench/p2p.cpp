// `zerohop bench p2p`: which launches of the point-to-point benchmark a round has, and the verdict on its limits. How a
// benchmark runs as a whole is command.h's. Measures nothing itself.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "os/affinity.h"
#include "os/program.h"
#include "tools/bench/command.h"
#include "tools/bench/report.h"
#include "tools/cli/commands.h"
#include "tools/cli/inputs.h"
#include "tools/cli/text.h"

namespace zh::tools {
namespace {

namespace fs = std::filesystem;

struct P2pOptions : BenchOptions {
  std::string raw = "auto";
  int ranks_many = 8;
};

/// Launches of one group are compared with each other: short, so that a round of a group sees one nature of the
/// machine.
struct Group {
  std::string name;
  std::string only;  ///< sub-benchmarks, as the program takes them
  std::string buffers;
  int ranks = 2;
  bool forced_skew = false;  ///< one more zerohop launch for each forced setting
  bool heap_off = false;     ///< one more zerohop launch without the shared heap
  bool fresh_job = false;    ///< zerohop against its bare host, wall time included; nothing else in the job
};

/// Two or more that this process may use.
std::string wrong_processors(const std::string& list) {
  const os::CpuSet allowed = os::allowed_cpus();
  os::CpuSet named;
  const std::vector<std::string> words = split(list);
  for (const std::string& word : words) {
    const bool is_number =
        !word.empty() && word.size() <= 4 && std::ranges::all_of(word, [](char c) { return c >= '0' && c <= '9'; });
    if (is_number) named.add(static_cast<uint32_t>(std::stoi(word)));
    if (!is_number || !allowed.has(static_cast<uint32_t>(std::stoi(word))))
      return fmt::format("this process may use {}, not {}", allowed.to_string(), word);
  }
  return named.count() < 2 || named.count() != words.size() ? "names less than two different ones: " + list : "";
}

std::vector<Group> p2p_groups(const P2pOptions& o) {
  const std::vector<Group> all = {
      {"latency", "latency", "malloc", 2, false, true},
      {"latency-static", "latency", "static", 2, false, true},
      {"latency-alloc_mem", "latency", "alloc_mem"},
      {"noreuse", "noreuse", "malloc", 2, false, true},
      {"first", "first", "malloc", 2, false, true},
      {"streams", "bandwidth,bidirectional,rate", "malloc"},
      {"streams-alloc_mem", "bandwidth,bidirectional", "alloc_mem"},
      {"queues", "queues", "malloc"},
      {"overlap", "overlap", "malloc"},
      {"skew", "skew", "malloc", 2, true},
      {"breakdown", "breakdown", "malloc"},
      {"strided", "strided", "malloc"},
      {"many", "pairs,exchange,multipair", "malloc", o.ranks_many},
      {"everybody", "everybody", "malloc", 64, false, false, true},
  };
  // A quick run looks at the main numbers in one launch per host and round.
  if (o.only.empty() && o.quick) return {{"quick", "latency,rate,bandwidth,overlap", "malloc"}};
  const std::vector<std::string> kinds = split(o.buffers);
  const std::vector<std::string> sizes = split(o.sizes);
  const bool tiny = !sizes.empty() && std::ranges::all_of(sizes, [](const std::string& size) {
    return contains({"0", "1", "2", "4"}, size);
  });
  std::vector<Group> chosen;
  for (Group g : all) {
    g.only = joined(wanted_of(o, g.only));
    if (tiny && g.only != "latency" && g.only != "noreuse") continue;
    if (!g.only.empty() && contains(kinds, g.buffers)) chosen.push_back(g);
  }
  return chosen;
}

std::vector<PlannedLaunch> p2p_launches(const P2pOptions& o, const Group& g, const Hosts& hosts) {
  BenchOptions part = o;
  part.only = g.only;
  part.buffers = g.buffers;
  std::vector<PlannedLaunch> planned;
  if (g.fresh_job) {  // 64 ranks on a few processors: only hosts that yield their processor come to an end
    part.sizes.clear();
    part.blocks = 1;
    for (const BenchHost& h : hosts.under) {
      if (h.name == "mpich") continue;
      planned.push_back(plan_launch("p2p", part, h, g.ranks, kHostArm));
      planned.push_back(plan_launch("p2p", part, h, g.ranks, kZerohopArm));
    }
    return planned;
  }
  planned = plan_launches("p2p", part, hosts, g.ranks);
  using Values = std::map<std::string, std::string>;
  const auto add = [&](std::string_view setting, const Values& env, const Values& settings) {
    for (const BenchHost& h : hosts.under) {
      PlannedLaunch p = plan_launch("p2p", part, h, g.ranks, kZerohopArm);
      p.setting = setting;
      p.spec.env = env;
      p.spec.settings = settings;
      planned.push_back(std::move(p));
    }
  };
  if (!o.arms.empty()) return planned;
  if (g.heap_off) add(kHeapOffSetting, {{"ZEROHOP_HEAP", "0"}}, {});
  if (g.forced_skew) {
    // The paper's kernel copies: no mapped buffers, and no sender that keeps a copy to be free of its receiver.
    const Values no_heap = {{"ZEROHOP_HEAP", "0"}};
    add("single_copy_skew_off", no_heap, {{"single_copy", "2K"}, {"keep_copies", "0"}, {"skew", "0"}});
    add("single_copy_skew_on", no_heap, {{"single_copy", "2K"}, {"keep_copies", "0"}, {"skew", "1"}});
  }
  return planned;
}

/// The raw limit once per round: in the nature that the machine has in this round.
void measure_raw(Rounds* rounds) {
  const std::string file = (fs::temp_directory_path() / fmt::format("zerohop-raw-{}.json", getpid())).string();
  const std::string zerohop = os::own_folder() + "/zerohop";
  if (output_of({zerohop, "bench", "raw", "--quick", "--json", file}, 60)) {
    std::string problem;
    rounds->add_raw(read_json(file, &problem));
  }
  std::error_code ignored;
  fs::remove(file, ignored);
}

void p2p_round(const P2pOptions& o, const Hosts& hosts, int round, Rounds* rounds) {
  if (rounds->counting()) {
  } else if (o.raw == "auto") {
    if (round == 0 || !o.quick) measure_raw(rounds);  // it takes as long as a quick round's launches
  } else if (o.raw != "off" && round == 0) {
    std::string problem;
    rounds->add_raw(read_json(o.raw, &problem));
  }
  for (const Group& g : p2p_groups(o)) rounds->run_group(g.name, round, o.rounds, p2p_launches(o, g, hosts));
}

std::string wrong_with_p2p(const P2pOptions& o) {
  if (o.rejudge_path.empty() && p2p_groups(o).empty())
    return "nothing to run: " + o.only + " is not measured with the buffers " + o.buffers +
           " (only latency, noreuse, first and streams are with others than malloc), or not with sizes below 8 (only "
           "latency and noreuse are)";
  for (const Group& g : p2p_groups(o)) {
    if (std::string wrong = wrong_machines(o, g.ranks); o.rejudge_path.empty() && !wrong.empty()) return wrong;
  }
  if (o.raw == "auto" || o.raw == "off") return "";
  std::string problem;
  const auto document = read_json(o.raw, &problem);
  if (!problem.empty()) return o.raw + ": " + problem;
  if (document.is_object() && document.contains("rows")) return "";
  return o.raw + " holds no raw limits (give a file that `zerohop bench raw --json` wrote)";
}

int report_p2p(const P2pOptions& o, const Launches& launches) {
  if (!launches.arms.empty()) return report_arms(o, launches, "bench p2p");
  RawLimits raw;
  for (const auto& d : launches.raw) add_raw_document(d, &raw);
  const Judged judged = judge(launches.records, raw);
  print_shown(table_of(judged, true) + closing_of(judged, "one way or per message; * marks the best peer"));
  return write_judged(o, judged, launches.machine, "bench p2p") ? 0 : 2;
}

}  // namespace

void add_bench_p2p_command(CLI::App& bench) {
  auto o = std::make_shared<P2pOptions>();
  o->buffers = "malloc,static,alloc_mem";
  MpiBench b;
  b.name = "p2p";
  b.about = "Host MPIs and zerohop side by side: point-to-point, in rounds of short launches";
  b.sizes = "Comma list of bytes, with K or M; 0, 1, 2 and 4 of latency and noreuse alone";
  b.size_range.tiny = true;
  b.quick = "The main numbers in at most two minutes";
  b.quick_pace = {8, 3, 2000, 0};
  b.check = [o] { return wrong_with_p2p(*o); };
  b.run_round = [o](const Hosts& hosts, int round, Rounds* rounds) { p2p_round(*o, hosts, round, rounds); };
  b.report = [o](const Launches& launches) { return report_p2p(*o, launches); };
  CLI::App* c = add_mpi_bench(bench, o, std::move(b));
  const std::vector<std::string> names = split(
      "latency,noreuse,first,bandwidth,bidirectional,rate,queues,overlap,skew,breakdown,strided,pairs,exchange,"
      "multipair,everybody");
  c->add_option("--only", o->only, "Comma list of " + joined(names))->check([names](const std::string& list) {
    return wrong_names(names, list);
  });
  c->add_option("--raw", o->raw, "Raw limits: auto (measure each round), off, or a file of `zerohop bench raw --json`")
      ->check([](const std::string& value) {
        return value == "auto" || value == "off" ? std::string() : wrong_input(value);
      })
      ->capture_default_str();
  c->add_option("--ranks", o->ranks_many, "Ranks of the benchmarks for many ranks")
      ->check(CLI::Range(2, kMostRanks))
      ->capture_default_str();
  c->add_option_function<std::string>(
       "--processors",
       [o](const std::string& list) {
         o->own_arguments.insert(o->own_arguments.end(), {"--processors", list});
       },
       "Those alone, such as 2,5: the first rank runs on the lowest number, and so on")
      ->check(&wrong_processors);
  add_arm_option(*c, o.get());
}

}  // namespace zh::tools
