// `zerohop bench raw --lines`: how long a cache line takes between every two CPUs. The line is that of src/tune/ways.h,
// as in the rest of `zerohop bench raw`.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/options.h"
#include "node/machine.h"
#include "os/affinity.h"
#include "tools/bench/both_sides.h"
#include "tools/bench/command.h"
#include "tools/bench/level_pairs.h"
#include "tools/bench/machine_load.h"
#include "tools/cli/commands.h"
#include "tools/cli/text.h"

namespace zh::tools {
namespace {

using Matrix = std::vector<std::vector<float>>;  ///< one way, ns; 0: not measured

/// The row of `cpus[row]`: its times with the later ones. The lines lie in its memory.
bool measure_row(const std::vector<uint32_t>& cpus, size_t row, Matrix* matrix) {
  constexpr tune::ScratchLimits kLimits{.ring_bytes = 4 << 10, .message_bytes = 4 << 10};
  bind_to_cpu(cpus[row]);
  return on_both_sides(kLimits, [&](tune::MeasuringPair& pair, int side) {
    if (side == 1) bind_to_cpu(cpus[row + 1]);
    if (!pair.meet()) return false;
    for (size_t i = row + 1; i < cpus.size(); ++i) {
      if (side == 1) bind_to_cpu(cpus[i]);
      (*matrix)[row][i] = (*matrix)[i][row] = pair.line_ns();
    }
    return !pair.failed();
  });
}

void print_matrix(const std::vector<uint32_t>& cpus, const Matrix& matrix) {
  std::vector<std::string> heads = {""};
  for (const uint32_t cpu : cpus) heads.push_back(std::to_string(cpu));
  Table table(heads);
  for (size_t i = 0; i < cpus.size(); ++i) {
    std::vector<std::string> cells = {heads[i + 1]};
    for (const float ns : matrix[i]) cells.push_back(ns > 0 ? fmt::format("{:.0f}", ns) : "-");
    table.add(std::move(cells));
  }
  print_shown("a cache line from one CPU to the other, ns one way\n\n" + table.text() + "\n");
}

/// By levels: every pair's time.
nlohmann::json document_of(const node::Machine& machine, const std::vector<uint32_t>& cpus, const Matrix& matrix) {
  nlohmann::json out = {{"schema", "zerohop-bench-lines/1"}, {"rows", nlohmann::json::array()}};
  for (size_t i = 0; i < cpus.size(); ++i) {
    for (size_t k = i + 1; k < cpus.size(); ++k) {
      const char* level = node::to_string(machine.level(only(cpus[i]), only(cpus[k])));
      out["rows"].push_back({{"cpus", {cpus[i], cpus[k]}}, {"level", level}, {"ns", matrix[i][k]}});
    }
  }
  return out;
}

void print_levels(const nlohmann::json& document) {
  std::map<std::string, std::vector<float>> by_level;
  for (const auto& row : document["rows"]) by_level[row["level"].get<std::string>()].push_back(row["ns"].get<float>());
  for (const auto& pair : document["distances"]) {
    std::vector<float>& ns = by_level[pair["level"].get<std::string>()];
    const tune::Quartiles q = tune::quartiles(ns);
    print_shown(
        fmt::format("{:<14}  {:>5} pairs, median {:.0f} ns (quartiles {:.0f} to {:.0f}, {:.0f} to {:.0f} in all)\n",
                    pair["level"].get<std::string>(), ns.size(), q.median, q.low, q.high, ns.front(), ns.back()));
  }
}

}  // namespace

int bench_lines(const std::string& json_path) {
  constexpr int kNotHere = 77;
  const os::CpuSet allowed = os::allowed_cpus();
  const std::vector<uint32_t> cpus = numbers_of(allowed);
  if (cpus.size() < 2) {
    fmt::print(stderr, "zerohop bench raw: needs two CPUs, this process may use only {}\n", allowed.to_string());
    return kNotHere;
  }
  LoadWatch watch("bench raw");
  Matrix matrix(cpus.size(), std::vector<float>(cpus.size()));
  for (size_t row = 0; row + 1 < cpus.size(); ++row) {
    if (!measure_row(cpus, row, &matrix)) return 1;
  }
  Options options;
  options.read_environment(environ);
  node::Machine machine;
  (void)machine.load(options.get_text(Opt::kTopology));  // else all count as sharing a cache
  nlohmann::json document = document_of(machine, cpus, matrix);
  for (const LevelPair& p : plan_pairs(machine, allowed))
    document["distances"].push_back({{"level", node::to_string(p.level)}, {"cpus", {p.first, p.second}}});
  print_matrix(cpus, matrix);
  print_levels(document);
  document["machine"] = watch.end();
  return json_path.empty() || write_file(json_path, document.dump(1) + "\n", "bench raw") ? 0 : 1;
}

}  // namespace zh::tools
