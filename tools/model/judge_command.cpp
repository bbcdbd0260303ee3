// `zerohop model judge`: whether a model, and the built-in choices, take the algorithms that `zerohop bench algorithms`
// measured to be the fastest. Measures nothing itself.
#include "tools/model/judge_command.h"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/options.h"
#include "tools/bench/report.h"
#include "tools/cli/commands.h"
#include "tools/cli/inputs.h"
#include "tools/cli/json_file.h"
#include "tools/cli/text.h"
#include "tools/model/judge.h"
#include "tools/model/machine_tiles.h"
#include "tools/model/profile.h"

namespace zh::tools {
namespace {

using nlohmann::json;

constexpr const char* kJudgeHelp =
    "For each collective, size and number of ranks in the measurement: the fastest\n"
    "algorithm, the one that `zerohop model choose` takes by this profile and the\n"
    "tiles of this machine, and the built-in one, with their times as multiples of\n"
    "the fastest's. A choice is near the best within 10 %. What takes longer is\n"
    "open where the 95 % intervals of the two overlap, and else wrong. Of a chosen\n"
    "algorithm the measured chunk that is closest counts. Then the cells in which\n"
    "what zerohop does by itself is slower than the host by more than 5 %.\n\n"
    "  zerohop tune --json here.json\n"
    "  zerohop bench algorithms --ranks 2,4 --json measured.json\n"
    "  zerohop model judge measured.json --profile here.json\n"
    "  zerohop model judge measured.json -p here.json --points     every cell\n\n"
    "Ends with 0 whatever it finds, or 2 if there is nothing to judge.";

struct ModelJudgeArguments {
  std::string file;
  std::string profile;
  uint32_t processors = 0;  ///< 0: as the profile has it
  bool points = false;
  bool as_json = false;
};

int refuse_model_judge(const std::string& why) {
  fmt::print(stderr, "zerohop model judge: {}\n", why);
  return 2;
}

const char* quality_name(Quality quality) {
  switch (quality) {
    case Quality::kNearBest:
      return "near";
    case Quality::kNotResolved:
      return "open";
    case Quality::kWorse:
      return "wrong";
    case Quality::kNotMeasured:
      break;
  }
  return "not measured";
}

std::string setting_text(const Choice& choice) {
  return choice.chunk ? fmt::format("{}/{}", choice.algorithm, format_size(*choice.chunk)) : choice.algorithm;
}

std::string judged_shape(const ModelCase& c) {
  return fmt::format("{}x{}", c.cluster.nodes, c.cluster.ranks_per_node());
}

json judged_cluster_json(const ModelCase& c) {
  return {{"collective", coll::name_of(c.collective)}, {"ranks", c.cluster.ranks}, {"nodes", c.cluster.nodes}};
}

json choice_json(const JudgedChoice& c) {
  json out = {{"algorithm", nullptr},
              {"chunk_bytes", nullptr},
              {"measured_as", nullptr},
              {"ratio", nullptr},
              {"is", quality_name(c.quality)}};
  if (!c.choice.algorithm.empty()) out["algorithm"] = c.choice.algorithm;
  if (c.choice.chunk) out["chunk_bytes"] = *c.choice.chunk;
  if (c.quality == Quality::kNotMeasured) return out;
  out["measured_as"] = c.measured_as;
  out["ratio"] = c.ratio;
  out["other_chunk"] = c.other_chunk;
  return out;
}

json cell_json(const JudgedCell& c) {
  json out = judged_cluster_json(c.what);
  out["bytes"] = c.what.bytes;
  out["settings"] = c.settings;
  out["best"] = c.best;
  out["best_us"] = interval_json(c.best_us);
  out["best_is_told"] = c.told;
  out["model"] = choice_json(c.model);
  out["built_in"] = choice_json(c.standard);
  out["own_to_host"] = nullptr;
  if (c.own_to_host) out["own_to_host"] = c.own_to_host->mid;
  out["slower_than_host"] = c.slower_than_host();
  out["surely_slower_than_host"] = c.surely_slower_than_host();
  return out;
}

json count_json(const ChoiceCount& c) {
  return {{"near_best", c.near_best},
          {"not_resolved", c.not_resolved},
          {"wrong", c.worse},
          {"not_measured", c.not_measured},
          {"greatest_ratio", c.greatest_ratio}};
}

json sum_json(const JudgedSum& s) {
  return {{"cells", s.cells},
          {"best_is_told", s.told},
          {"model", count_json(s.model)},
          {"built_in", count_json(s.standard)},
          {"slower_than_host", s.slower_than_host},
          {"surely_slower_than_host", s.surely_slower_than_host}};
}

JudgedSum whole_of(const std::vector<JudgedCell>& cells) {
  JudgedSum sum;
  for (const JudgedCell& cell : cells) add(cell, &sum);
  return sum;
}

void print_judged_json(const model::Parameters& parameters, const coll::Tiles& tiles,
                       const std::vector<JudgedCell>& cells) {
  json out = {{"schema", "zerohop-model-judgement/1"},
              {"profile", profile_origin_json(parameters)},
              {"tiles", {{"small_bytes", tiles.small}, {"large_bytes", tiles.large}}},
              {"near_best_ratio", kNearRatio},
              {"slower_than_host_ratio", kSlowerThanHost},
              {"cells", json::array()},
              {"collectives", json::array()},
              {"all", sum_json(whole_of(cells))}};
  for (const JudgedCell& c : cells) out["cells"].push_back(cell_json(c));
  for (const JudgedSum& s : sums_of(cells)) {
    json line = judged_cluster_json(s.what);
    line.update(sum_json(s));
    out["collectives"].push_back(std::move(line));
  }
  std::printf("%s\n", out.dump(2).c_str());
}

std::string choice_text(const JudgedChoice& c) {
  if (c.quality == Quality::kNotMeasured) return (c.choice.algorithm.empty() ? "-" : setting_text(c.choice)) + " ?";
  return fmt::format("{} {:.2f}{}", c.measured_as, c.ratio,
                     c.quality == Quality::kNearBest ? "" : fmt::format(" {}", quality_name(c.quality)));
}

void print_judged_points(const std::vector<JudgedCell>& cells) {
  const ModelCase* last = nullptr;
  for (const JudgedCell& c : cells) {
    const bool is_new =
        last == nullptr || last->collective != c.what.collective || judged_shape(*last) != judged_shape(c.what);
    if (is_new) {
      fmt::print("\n{} {}\n{:>6}  {:<36} {:<36} {:<36} {:>8}\n", coll::name_of(c.what.collective), judged_shape(c.what),
                 "bytes", "best, µs", "model, times the best's", "built in", "to host");
    }
    last = &c.what;
    const std::string own =
        c.own_to_host ? fmt::format("{:.2f}{}", c.own_to_host->mid, c.slower_than_host() ? "!" : "") : "-";
    fmt::print("{:>6}  {:<36} {:<36} {:<36} {:>8}\n", format_size(c.what.bytes),
               fmt::format("{} {}{}", c.best, number_text(c.best_us.mid), c.told ? " told" : ""),
               choice_text(c.model) + (c.model.other_chunk ? " (as " + setting_text(c.model.choice) + ")" : ""),
               choice_text(c.standard), own);
  }
  fmt::print("\n");
}

std::string count_text(const ChoiceCount& c) {
  return fmt::format("{:>5} {:>4} {:>5} {:>6.2f}", c.near_best, c.not_resolved, c.worse, c.greatest_ratio);
}

void print_sums(const std::vector<JudgedSum>& sums, const JudgedSum& whole) {
  fmt::print("{:<20}{:>5} {:>4}  {:<23}  {:<23}\n", "", "", "best", "model's choice", "built-in choice");
  const std::string head = "near open wrong  worst";
  fmt::print("{:<20}{:>5} {:>4}   {}    {}\n", "", "cells", "told", head, head);
  const auto line = [](const std::string& name, const JudgedSum& s) {
    fmt::print("{:<20}{:>5} {:>4}  {}  {}\n", name, s.cells, s.told, count_text(s.model), count_text(s.standard));
  };
  for (const JudgedSum& s : sums) line(fmt::format("{} {}", coll::name_of(s.what.collective), judged_shape(s.what)), s);
  if (sums.size() > 1) line("all", whole);
}

std::string share_text(int part, int whole) {
  return fmt::format("{:.0f} % ({} of {})", 100.0 * part / whole, part, whole);
}

std::string slower_text(const std::vector<JudgedCell>& cells) {
  std::string text;
  for (const JudgedCell& c : cells) {
    if (!c.slower_than_host()) continue;
    text += fmt::format("{}{} {} {} {:.2f}{}", text.empty() ? "" : ", ", coll::name_of(c.what.collective),
                        judged_shape(c.what), format_size(c.what.bytes), c.own_to_host->mid,
                        c.surely_slower_than_host() ? "" : " [?]");
  }
  return text;
}

void print_summary(const std::vector<JudgedCell>& cells, const JudgedSum& whole) {
  const size_t columns = output_columns();
  const auto say = [columns](const std::string& head, const std::string& text) {
    std::fputs(hanging(head, text, columns).c_str(), stdout);
  };
  fmt::print("\n");
  const auto choice = [&](const ChoiceCount& c) {
    return fmt::format("within 10 % of the best in {}; {} more are not resolved, {} not measured",
                       share_text(c.near_best, whole.cells), c.not_resolved, c.not_measured);
  };
  say("model: ", choice(whole.model));
  say("built in: ", choice(whole.standard));
  say("best told: ", fmt::format("in {} one setting's 95 % interval lies below all others'; elsewhere the measurement "
                                 "does not say which is the best",
                                 share_text(whole.told, whole.cells)));
  const std::string slower = slower_text(cells);
  say("zerohop itself: ",
      slower.empty()
          ? "nowhere slower than the host by more than 5 %"
          : fmt::format("slower than the host by more than 5 % in {}, and surely so in {} ([?]: not "
                        "surely), as multiples of its time: {}",
                        share_text(whole.slower_than_host, whole.cells), whole.surely_slower_than_host, slower));
  say("",
      "1x8: 1 node of 8 ranks. A worst is the greatest multiple of the best's time. On one node zerohop itself is "
      "the team of blocking calls, and the algorithms are those of nonblocking ones.");
}

int judge_file(const ModelJudgeArguments& a) {
  std::string problem;
  const json document = read_json(a.file, &problem);
  if (!problem.empty()) return refuse_model_judge(a.file + ": " + problem);
  const auto cases = measured_cases(document, &problem);
  if (!cases) return refuse_model_judge(a.file + ": " + problem);
  auto parameters = find_profile(a.profile, &problem);
  if (!parameters) return refuse_model_judge(problem);
  if (a.processors > 0) parameters->processors_per_node = a.processors;
  Options options;
  options.read_environment(environ);
  std::vector<std::string> notes;
  const coll::Tiles tiles = tiles_here(options, &notes);
  const std::vector<JudgedCell> cells = judged_cells(*cases, by_model(*parameters, tiles), built_in);
  if (cells.empty()) return refuse_model_judge(a.file + ": no collective at no size has two algorithms to choose from");
  if (a.as_json) {
    print_judged_json(*parameters, tiles, cells);
    return 0;
  }
  const JudgedSum whole = whole_of(cells);
  std::fputs(hanging("profile " + parameters->name + ": ", parameters->about, output_columns()).c_str(), stdout);
  if (tiles != coll::Tiles{}) fmt::print("tiles: {}\n", tiles_text(tiles));
  for (const std::string& note : notes) std::fputs(hanging("- ", note, output_columns()).c_str(), stdout);
  if (a.points) print_judged_points(cells);
  fmt::print("\n");
  print_sums(sums_of(cells), whole);
  print_summary(cells, whole);
  return 0;
}

}  // namespace

void add_model_judge_command(CLI::App* model) {
  auto a = std::make_shared<ModelJudgeArguments>();
  CLI::App* command = model->add_subcommand("judge", "Whether the model's choices are the ones measured as fastest.");
  command->footer(kJudgeHelp);
  command->add_option("file", a->file, "What `zerohop bench algorithms --json` wrote")->required()->check(&wrong_input);
  command->add_option("-p,--profile", a->profile, "The machine's profile: a file, or a built-in one")->required();
  command
      ->add_option(
          "--processors", a->processors,
          "Processors of the machine, for which ranks wait if they are more; otherwise as the profile has them")
      ->check(CLI::Range(1U, model::kMostProcessors));
  command->add_flag("--points", a->points, "Every cell by itself, too");
  command->add_flag("--json", a->as_json, "Print JSON: cells, sums by collective, and of all");
  command->callback([a] { exit_code = judge_file(*a); });
}

}  // namespace zh::tools
