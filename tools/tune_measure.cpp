// See tune_measure.h.
#include "tune_measure.h"

#include <fmt/format.h>

#include <cstdio>
#include <optional>
#include <string_view>
#include <vector>

#include "base/options.h"
#include "bench_command.h"
#include "bench_report.h"
#include "bench_rounds.h"
#include "commands.h"
#include "machine_load.h"
#include "message_costs.h"
#include "model_profile.h"
#include "text.h"
#include "tune/profile.h"

namespace zh::tools {
namespace {

using model::CommLevel;
using model::Parameters;

constexpr int kCannotKeep = 1;
constexpr int kCannotMeasure = 2;
constexpr std::string_view kCommand = "tune";

int refuse(int code, const std::string& why) {
  fmt::print(stderr, "zerohop tune: {}\n", why);
  return code;
}

std::string name_of(const MessageCost& cost) {
  return cost.stride == 0 ? format_size(cost.bytes) : fmt::format("{}{}S", format_size(cost.bytes), cost.stride);
}

void print_costs(const char* where, const MessageCosts& measured) {
  const auto print = [&](const char* what, bool strided) {
    fmt::print("{}\n", what);
    for (const MessageCost& cost : measured.costs) {
      if ((cost.stride != 0) == strided) {
        fmt::print("  {:<8} {:>24}{}\n", name_of(cost), interval_text(cost.us), cost.noisy() ? "  noisy" : "");
      }
    }
  };
  fmt::print("{}: {} launches, {} (a cache line from one rank to the other: {:.3f} µs)", where, measured.launches,
             measured.placement, measured.line_us);
  if (measured.left_out > 0) fmt::print("; {} launches at another placement left out", measured.left_out);
  fmt::print("\n\n");
  print("half of a contiguous message's time, µs [95 % interval]; inside a node the overhead o at each end", false);
  print("latency l at each end, µs: what a stride costs more (4K8S: 4 KiB at a stride of 8 bytes)", true);
  fmt::print("\n");
}

struct Measured {
  MessageCosts inside;
  std::optional<MessageCosts> between;
};

std::string launches_text(const MessageCosts& measured, const BenchHost& host) {
  std::string noisy;
  for (const MessageCost& cost : measured.costs) {
    if (cost.noisy()) noisy += (noisy.empty() ? "" : ", ") + name_of(cost);
  }
  return fmt::format(
      "measured {} with zerohop {} under {}, {} launches of 2 ranks, {}, cache line {:.3f} us; noisy: {}", today(),
      ZH_VERSION, host.name, measured.launches, measured.placement, measured.line_us,
      noisy.empty() ? "nothing" : noisy);
}

std::vector<std::string> sources_of(const Measured& measured, const BenchHost& host, const Parameters& base) {
  const tune::MachineId machine = tune::this_machine();
  std::vector<std::string> sources = {
      "intra-cmp: " + launches_text(measured.inside, host),
      fmt::format("machine: {}; Linux {}{}", machine.cpu, machine.kernel,
                  machine.hypervisor.empty() ? "" : "; hypervisor " + machine.hypervisor),
      "inter-cmp: not measured, as on one chip",
      measured.between
          ? "inter-node: pretended nodes of one rank, messages by the host inside the machine; overhead as "
            "intra-cmp; " +
                launches_text(*measured.between, host)
          : "inter-node: not measured, that of the profile " + base.name,
  };
  return sources;
}

Parameters parameters_of(const Measured& measured, const BenchHost& host, const Parameters& base) {
  Parameters p;
  p.name = "measured";
  p.about =
      fmt::format("this machine between two ranks that are {}, measured {} under {}; between nodes {}",
                  measured.inside.placement, today(), host.name, measured.between ? "as pretended" : "as " + base.name);
  p.sources = sources_of(measured, host, base);
  p.levels[static_cast<size_t>(CommLevel::kIntraChip)] = level_costs(measured.inside);
  p.levels[static_cast<size_t>(CommLevel::kInterNode)] =
      measured.between ? between_costs(measured.inside, *measured.between) : base.at(CommLevel::kInterNode);
  return p;
}

constexpr const char* kPretendedNodes = "pretended_nodes";

/// `placement`: of that alone, unless it is empty.
MessageCosts costs_with(const Rounds& rounds, const std::string& setting, const std::string& placement) {
  std::vector<LaunchRecord> records = rounds.launches().records;
  std::erase_if(records, [&](const LaunchRecord& r) {
    return r.setting != setting || (!placement.empty() && r.document.value("placement", "") != placement);
  });
  return message_costs_of(records);
}

BenchOptions launch_options(const MeasureOptions& o) {
  BenchOptions b;
  b.hosts = o.hosts;
  b.only = "strided";
  b.blocks = 5;
  b.block_us = 2000;
  return b;
}

}  // namespace

int measure_profile(const MeasureOptions& o) {
  std::string problem;
  const std::optional<Parameters> base = find_profile(o.base, &problem);
  if (!base) return refuse(kCannotMeasure, problem);
  const std::optional<Hosts> hosts = choose_hosts(o.hosts, true, std::string(kCommand), "p2p");
  if (!hosts) return kCannotMeasure;
  const BenchHost& host = hosts->under.front();
  LoadWatch watch;
  const std::string busy = start_line_of(watch.load());
  if (!busy.empty()) fmt::print(stderr, "zerohop tune: {}\n", busy);
  Rounds rounds;
  std::vector<PlannedLaunch> launches = {plan_launch("p2p", launch_options(o), host, 2, kZerohopArm)};
  if (o.pretend_nodes) {
    launches.push_back(launches.front());
    launches.back().setting = kPretendedNodes;
    launches.back().spec.env["ZEROHOP_NODE_RANKS"] = "1";
  }
  for (int round = 0; round < o.rounds && rounds.failures() == 0; ++round) {
    for (const PlannedLaunch& launch : launches) (void)rounds.launch("strided", round, o.rounds, launch);
    watch.look();
  }
  if (rounds.failures() > 0) return refuse(kCannotMeasure, "a launch failed, so nothing is written");
  Measured measured{costs_with(rounds, "", ""), {}};
  if (o.pretend_nodes) measured.between = costs_with(rounds, kPretendedNodes, measured.inside.placement);
  if (measured.inside.launches == 0 || (measured.between && measured.between->launches == 0)) {
    return refuse(kCannotKeep, "no launch kept one placement to its end; run it again");
  }
  print_costs("inside a node", measured.inside);
  if (measured.between) print_costs("between pretended nodes", *measured.between);
  if (watch.load().busy_during()) {
    std::fflush(stdout);
    return refuse(kCannotKeep, "nothing is written, such times are not the machine's. " + run_line_of(watch.load()));
  }
  const Parameters parameters = parameters_of(measured, host, *base);
  const std::string fault = parameters.fault();
  if (!fault.empty()) return refuse(kCannotKeep, "the costs make no profile: " + fault);
  if (!write_file(o.json_path, profile_json(parameters).dump(2) + "\n", std::string(kCommand))) return kCannotMeasure;
  fmt::print("\nWritten: {}\n  zerohop model predict bcast -a binomial --ranks 2 --profile {}\n", o.json_path,
             o.json_path);
  return 0;
}

}  // namespace zh::tools
