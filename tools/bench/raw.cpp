// `zerohop bench raw`: times every way of moving n bytes between two processes on two CPUs, without MPI: the machine's
// limit, by size and placement. The measuring loops are the calibration's own (src/tune/ways.h); this file chooses what
// to measure, groups it by the raw line time, and prints.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "copy/kernels.h"
#include "node/line_time.h"
#include "tools/bench/both_sides.h"
#include "tools/bench/command.h"
#include "tools/bench/machine_load.h"
#include "tools/cli/commands.h"
#include "tools/cli/inputs.h"
#include "tools/cli/progress.h"
#include "tools/cli/text.h"
#include "tune/choice.h"
#include "tune/ways.h"

namespace zh::tools {
namespace {

using copy::Store;
using tune::Shot;
using tune::Way;

struct RawOptions {
  bool quick = false;
  bool lines = false;
  int blocks = 0;
  std::vector<int> cpus;
  std::string json;
};

constexpr tune::ScratchLimits kScratchLimits{.ring_bytes = 2 << 20, .message_bytes = 4 << 20, .pool_bytes = 64 << 20};
constexpr uint64_t kLargestUsedOnce = 16 << 20;

struct RawPlan {
  uint64_t bytes;
  std::vector<Shot> shots;
};

/// Ways of a message whose buffers are used once, so that its receiver's lie in no cache.
std::vector<Shot> shots_used_once(uint64_t n) {
  constexpr uint64_t kPiped = 256 << 10;  // as eager messages go up to here, and transfers above
  const uint32_t cell = n <= kPiped ? 4U << 10 : 32U << 10;
  std::vector<Shot> shots;
  for (const Store store : {Store::kTemporal, Store::kNonTemporal}) {
    for (const bool ahead : {false, true}) {
      for (const Store out : {Store::kTemporal, Store::kNonTemporal}) {
        if (ahead && out == Store::kNonTemporal) continue;
        shots.push_back({Way::kCells, n, store, out, ahead, true, 2U << 20, cell});
      }
    }
  }
  for (const Way way : {Way::kCmaRead, Way::kCmaWrite, Way::kCmaBoth}) {
    shots.push_back({.way = way, .once = true, .chunk_bytes = 64U << 10});
  }
  return shots;
}

std::vector<RawPlan> make_plan(bool quick) {
  std::vector<uint64_t> sizes = {8, 64, 256, 512, 1 << 10, 2 << 10, 4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10};
  for (uint64_t n = 128 << 10; n <= kScratchLimits.message_bytes; n *= 2) sizes.push_back(n);
  sizes.push_back(kLargestUsedOnce);
  std::vector<RawPlan> plans;
  for (const uint64_t n : sizes) {
    RawPlan plan{n, {}};
    uint64_t trips = (quick ? 3U << 20 : 16U << 20) / n;
    trips = std::clamp<uint64_t>(trips, 5, quick ? 100 : 400);
    const auto add = [&](Shot shot) {
      shot.bytes = n;
      shot.trips = static_cast<uint32_t>(trips);
      plan.shots.push_back(shot);
    };
    if (n >= 1 << 10) {
      for (const Shot& shot : shots_used_once(n)) add(shot);
    }
    if (n > kScratchLimits.message_bytes) {
      plans.push_back(std::move(plan));
      break;
    }
    const auto chunk = static_cast<uint32_t>(std::clamp<uint64_t>(n / 4, 1 << 10, 64 << 10));
    if (n <= tune::kInlineBytes) add({.way = Way::kInline});
    for (const Store store : {Store::kTemporal, Store::kNonTemporal}) {
      if (store == Store::kNonTemporal && n <= copy::kSmallBytes) continue;
      for (const uint32_t ring : {64U << 10, 512U << 10, 2U << 20}) {
        for (const uint32_t cell : {2U << 10, 8U << 10, 16U << 10, 32U << 10}) {
          // A message that fits a smaller cell measures the same in a larger one.
          if (cell > (2U << 10) && n <= cell / 2) continue;
          if (quick && cell == 32U << 10) continue;
          if (ring / cell < 4) continue;
          add({.way = Way::kCells, .store = store, .ring_bytes = ring, .chunk_bytes = cell});
        }
      }
    }
    add({.way = Way::kCmaRead});
    add({.way = Way::kCmaWrite});
    add({.way = Way::kMappedRead});
    if (n >= 4 << 10) {
      add({.way = Way::kCmaBoth, .chunk_bytes = chunk});
      add({.way = Way::kMappedBoth, .chunk_bytes = chunk});
    }
    plans.push_back(std::move(plan));
  }
  return plans;
}

bool is_mapped(Way way) { return way == Way::kMappedRead || way == Way::kMappedBoth; }

tune::Quartiles quartiles_of(std::vector<float> values) { return tune::quartiles(values); }

/// One configuration's results in one placement.
struct RawSeries {
  Shot shot;
  std::vector<float> us;      ///< one median per block
  std::vector<float> spread;  ///< within a block
  [[nodiscard]] float median() const { return quartiles_of(us).median; }
  /// The larger of the spread within a block and between blocks, as a part of the median.
  [[nodiscard]] float width() const {
    const tune::Quartiles q = quartiles_of(us);
    return std::max((q.high - q.low) / q.median, quartiles_of(spread).median);
  }
};

std::string describe(const Shot& s) {
  if (s.once) {
    return fmt::format("{}{}{}", to_string(s.way), s.store == Store::kNonTemporal ? "-nt" : "",
                       s.write_ahead                             ? " ahead"
                       : s.receiver_store == Store::kNonTemporal ? " nt-out"
                                                                 : "");
  }
  if (s.way == Way::kCells) {
    return fmt::format("cells{} ring {}K cell {}K", s.store == Store::kNonTemporal ? "-nt" : "", s.ring_bytes >> 10,
                       s.chunk_bytes >> 10);
  }
  if (s.way == Way::kCmaBoth || s.way == Way::kMappedBoth) {
    return fmt::format("{} chunk {}K", to_string(s.way), s.chunk_bytes >> 10);
  }
  return to_string(s.way);
}

struct Placement {
  std::vector<float> line_ns;
  std::vector<float> stream_ns;
  std::map<uint64_t, std::vector<RawSeries>> by_size;
  std::map<uint64_t, std::vector<RawSeries>> once_by_size;  ///< of buffers used once

  void add(const Shot& shot, const tune::Timing& t) {
    auto& list = (shot.once ? once_by_size : by_size)[shot.bytes];
    const std::string name = describe(shot);
    auto it = std::find_if(list.begin(), list.end(), [&](const RawSeries& s) { return describe(s.shot) == name; });
    if (it == list.end()) it = list.insert(list.end(), RawSeries{shot, {}, {}});
    it->us.push_back(t.us);
    it->spread.push_back(t.spread);
  }
};

struct Report {
  std::map<std::string, Placement> placements;
  int mixed = 0;  ///< sizes dropped because the placement changed while they were measured
  bool complete = false;
};

const char* placement_by_line(float line_ns) { return line_ns > node::kVirtualLines.near_ns ? "far" : "near"; }

/// Both sides run this; only side 0 looks at the results.
Report run_pair(tune::MeasuringPair& pair, const std::vector<RawPlan>& plans, int blocks, bool show) {
  Progress progress("bench raw");
  Report report;
  if (!pair.meet()) return report;
  for (int block = 0; block < blocks; ++block) {
    if (show) progress.show("block", block, blocks);
    float line = pair.line_ns();
    for (const RawPlan& plan : plans) {
      std::vector<tune::Timing> results;
      results.reserve(plan.shots.size());
      for (const Shot& shot : plan.shots) results.push_back(pair.measure(shot));
      const tune::Timing stream = plan.bytes == 8 ? pair.stream() : tune::Timing{};
      const float after = pair.line_ns();
      if (pair.failed()) return report;
      const std::string placement = placement_by_line(line);
      if (placement == placement_by_line(after)) {
        Placement& p = report.placements[placement];
        p.line_ns.push_back((line + after) / 2);
        if (stream.ok) p.stream_ns.push_back(stream.us);
        for (size_t i = 0; i < results.size(); ++i) {
          if (results[i].ok) p.add(plan.shots[i], results[i]);
        }
      } else {
        ++report.mixed;
      }
      line = after;
    }
  }
  report.complete = true;
  return report;
}

const RawSeries* best(const std::vector<RawSeries>& list, bool (*wanted)(const Shot&)) {
  const RawSeries* found = nullptr;
  for (const RawSeries& s : list) {
    if (wanted(s.shot) && (found == nullptr || s.median() < found->median())) found = &s;
  }
  return found;
}

std::string cell(const RawSeries* s) {
  return s == nullptr ? "-" : fmt::format("{:.3f} ±{:.0f}%", s->median(), s->width() * 100);
}

void print_once(const Placement& p) {
  std::vector<std::string> heads = {"bytes"};
  for (const Shot& shot : shots_used_once(kLargestUsedOnce)) heads.push_back(describe(shot));
  Table table(heads, 0);
  for (const auto& [bytes, list] : p.once_by_size) {
    std::vector<std::string> cells = {std::to_string(bytes)};
    for (size_t i = 1; i < heads.size(); ++i) {
      const auto found =
          std::find_if(list.begin(), list.end(), [&](const RawSeries& s) { return describe(s.shot) == heads[i]; });
      cells.push_back(cell(found == list.end() ? nullptr : &*found));
    }
    table.add(std::move(cells));
  }
  print_shown(fmt::format(
      "\nthe same of private buffers that are used once (ahead: who waits asks for the lines of its buffer; nt-out: "
      "the receiver writes past its cache)\n{}",
      table.text()));
}

void print_raw(const Report& report) {
  using Wanted = bool (*)(const Shot&);
  constexpr std::pair<const char*, Wanted> kColumns[] = {
      {"inline", [](const Shot& s) { return s.way == Way::kInline; }},
      {"cells", [](const Shot& s) { return s.way == Way::kCells && s.store == Store::kTemporal; }},
      {"cells-nt", [](const Shot& s) { return s.way == Way::kCells && s.store == Store::kNonTemporal; }},
      {"cma-read", [](const Shot& s) { return s.way == Way::kCmaRead; }},
      {"cma-write", [](const Shot& s) { return s.way == Way::kCmaWrite; }},
      {"cma-both", [](const Shot& s) { return s.way == Way::kCmaBoth; }},
      {"mapped-read", [](const Shot& s) { return s.way == Way::kMappedRead; }},
      {"mapped-both", [](const Shot& s) { return s.way == Way::kMappedBoth; }},
  };
  for (const auto& [name, p] : report.placements) {
    const tune::Quartiles q = quartiles_of(p.line_ns);
    fmt::print("\nplacement {}: raw line {:.0f} ns (quartiles {:.0f} to {:.0f})", name, q.median, q.low, q.high);
    if (!p.stream_ns.empty()) fmt::print("; stream of lines {:.1f} ns a message", quartiles_of(p.stream_ns).median);
    std::vector<std::string> heads = {"bytes"};
    for (const auto& [way, wanted] : kColumns) heads.emplace_back(way);
    heads.insert(heads.end(), {"best private", "best mapped"});
    Table table(heads, 0);
    for (const auto& [bytes, list] : p.by_size) {
      std::vector<std::string> cells = {std::to_string(bytes)};
      for (const auto& [way, wanted] : kColumns) cells.push_back(cell(best(list, wanted)));
      for (const Wanted wanted : {Wanted([](const Shot& s) { return !is_mapped(s.way); }),
                                  Wanted([](const Shot& s) { return is_mapped(s.way); })}) {
        const RawSeries* found = best(list, wanted);
        cells.push_back(found == nullptr ? "-" : describe(found->shot));
      }
      table.add(std::move(cells));
    }
    print_shown("\none way, microseconds, median ± spread\n" + table.text());
    print_once(p);
  }
  print_shown(
      "\nnear: the CPUs share a core's caches, else far. inline: beside the header; cells: in and out of shared memory "
      "(-nt: past the cache); cma: one copy by the kernel, of the reader, the writer or both; mapped: in memory that "
      "both have; private: no such memory. docs/glossary.md\n");
  if (report.mixed > 0)
    fmt::print("\n{} sizes were dropped: the placement changed while they were measured.\n", report.mixed);
}

nlohmann::json to_json(const Report& report) {
  nlohmann::json out = {{"kernel", copy::kernel_name()}, {"dropped", report.mixed}, {"rows", nlohmann::json::array()}};
  out["placement"] = report.placements.size() == 1 ? report.placements.begin()->first : "mixed";
  for (const auto& [name, p] : report.placements) {
    out["line_ns"][name] = quartiles_of(p.line_ns).median;
    if (!p.stream_ns.empty()) {
      out["rows"].push_back({{"placement", name},
                             {"buffers", "ring"},
                             {"way", "stream"},
                             {"size", 8},
                             {"us", quartiles_of(p.stream_ns).median / 1000}});
    }
    const auto add = [&, place = name](uint64_t bytes, const std::vector<RawSeries>& list) {
      for (const RawSeries& s : list) {
        nlohmann::json row = {{"placement", place},
                              {"buffers", is_mapped(s.shot.way) ? "mapped"
                                          : s.shot.once         ? "once"
                                                                : "private"},
                              {"way", s.shot.once ? describe(s.shot) : to_string(s.shot.way)},
                              {"size", bytes},
                              {"us", s.median()},
                              {"spread", s.width()},
                              {"blocks", s.us.size()}};
        if (s.shot.way == Way::kCells && !s.shot.once) {
          row["store"] = s.shot.store == Store::kNonTemporal ? "non-temporal" : "temporal";
          row["ring_bytes"] = s.shot.ring_bytes;
          row["cell_bytes"] = s.shot.chunk_bytes;
        }
        out["rows"].push_back(row);
      }
    };
    for (const auto& [bytes, list] : p.by_size) add(bytes, list);
    for (const auto& [bytes, list] : p.once_by_size) add(bytes, list);
  }
  return out;
}

int bench_raw(const RawOptions& o) {
  std::vector<int> cpus = o.cpus;
  if (const int code = choose_cpus("bench raw", &cpus); code != 0) return code;
  const std::vector<RawPlan> plans = make_plan(o.quick);
  const int blocks = o.blocks > 0 ? o.blocks : o.quick ? 3 : 9;
  LoadWatch watch("bench raw");
  bind_to_cpu(static_cast<uint32_t>(cpus[0]));
  Report report;
  const bool complete = on_both_sides(kScratchLimits, [&](tune::MeasuringPair& pair, int side) {
    bind_to_cpu(static_cast<uint32_t>(cpus[static_cast<size_t>(side)]));
    report = run_pair(pair, plans, blocks, side == 0);
    return report.complete;
  });
  if (!complete) return 1;
  fmt::print("CPUs {} and {}, copy kernels {}, {} blocks\n", cpus[0], cpus[1], copy::kernel_name(), blocks);
  print_raw(report);
  nlohmann::json document = to_json(report);
  document["machine"] = watch.end();
  return o.json.empty() || write_file(o.json, document.dump(1) + "\n", "bench raw") ? 0 : 1;
}

}  // namespace

void add_bench_raw_command(CLI::App& bench) {
  auto options = std::make_shared<RawOptions>();
  CLI::App* c = bench.add_subcommand("raw", "Every way of moving bytes between two processes, without MPI");
  c->add_flag("--quick", options->quick, "Fewer repetitions (under 20 s)");
  c->add_option("--blocks", options->blocks, "Rounds over all sizes and ways")->check(CLI::Range(1, 1000));
  c->add_option("--cpus", options->cpus, "The two CPUs (default: the first two that this process may use)")
      ->delimiter(',')
      ->expected(2);
  c->add_flag("--lines", options->lines,
              "Only how long a cache line takes between every two CPUs that this process may use")
      ->excludes("--quick", "--blocks", "--cpus");
  c->add_option("--json", options->json, "Write all results to this file")->check(&wrong_output);
  c->callback([options] {
    const int result = options->lines ? bench_lines(options->json) : bench_raw(*options);
    if (result != 0) throw CLI::RuntimeError(result);
  });
}

}  // namespace zh::tools
