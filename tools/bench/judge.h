// Turns the documents of many launches into rows: per case, placement and zerohop's host the peers' medians and paired
// ratios with their intervals. Called after the rounds; starts nothing, prints nothing.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "tools/bench/stats.h"

namespace zh::tools {

/// LaunchRecord::setting of a launch of zerohop with ZEROHOP_HEAP=0, with which the others of its round are compared.
constexpr std::string_view kHeapOffSetting = "heap_off";

/// What one launch was for.
struct LaunchRecord {
  int round = 0;
  std::string group;     ///< launches of one group and round are compared with each other
  std::string host;      ///< mpich, openmpi, impi ...
  bool zerohop = false;  ///< the launch that carries zerohop; its document has the arms host, zerohop, host
  std::string setting;   ///< forced configuration ("single_copy_skew_off" ...); empty: defaults
  double wall_s = 0;
  nlohmann::json document;
  double at_s = 0;       ///< when it began, from the beginning of the run
  std::string abi = "";  ///< of the host
};

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(LaunchRecord, round, group, host, zerohop, setting, wall_s, document,
                                                at_s, abi)

/// Names one measured quantity. `variant` includes a forced setting.
struct CaseKey {
  std::string bench;
  std::string buffers;
  std::string variant;
  std::string metric;
  uint64_t size = 0;
  double param = 0;  ///< the case's second parameter: depth, c2_us, order or stride
  int ranks = 0;
  auto operator<=>(const CaseKey&) const = default;
};

struct Row {
  CaseKey key;
  std::string placement;  ///< near, far, or several (machines)
  std::string host;       ///< under which zerohop ran
  std::string machines;   ///< machines_text()
  int rounds = 0;
  double line_us = 0;                     ///< median over the launches used
  std::optional<double> raw_us;           ///< best raw way, when known
  std::map<std::string, Interval> peers;  ///< each bare host's value over the rounds
  std::string best_peer;
  Interval zerohop;       ///< value over the rounds
  Interval to_best_peer;  ///< paired by round
  Interval to_own_host;   ///< paired by block, one median per launch
  Interval noise;         ///< own host against itself, the same way
  Interval to_heap_off;   ///< to zerohop without the shared heap, paired by round
};

/// Best raw time in microseconds by (placement, buffers, size): private or mapped, the best of all, for every kind of
/// buffers; "ring" is the raw ring's time per 8-byte message.
using RawLimits = std::map<std::tuple<std::string, std::string, uint64_t>, double>;

/// Over how many machines the ranks of a launch were spread.
struct MachineSpread {
  int machines = 1;
  bool in_turn = false;  ///< dealt out one by one, not in blocks
};
MachineSpread spread_of(const nlohmann::json& document);
/// "2 machines", "2 machines in turn"; empty where all ranks of the launch share one.
std::string machines_text(const MachineSpread& spread);
std::string machines_text(const nlohmann::json& document);

/// Reads the document of `zerohop bench raw --json` into `out`, keeping the least time of each key.
void add_raw_document(const nlohmann::json& document, RawLimits* out);

/// One launch's numbers of one case: a median per arm, and the paired ratios' medians where there are three arms.
struct Sample {
  double value = 0;                           ///< the only arm's, or zerohop's
  std::optional<double> host = std::nullopt;  ///< of the host's arms beside zerohop's
  std::optional<double> to_own_host = std::nullopt;
  std::optional<double> noise = std::nullopt;
  double line_us = 0;
};

struct LaunchSamples {
  const LaunchRecord* record = nullptr;
  std::string placement;
  double line_us = 0;
  std::map<CaseKey, Sample> samples;
};
LaunchSamples samples_of(const LaunchRecord& record);

struct Judged {
  std::vector<Row> rows;
  int launches = 0;
  int mixed = 0;  ///< launches during which the placement changed: left out
};

Judged judge(const std::vector<LaunchRecord>& launches, const RawLimits& raw);

}  // namespace zh::tools
