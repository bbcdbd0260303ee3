// `zerohop model compare`: how far the models are from what `zerohop bench algorithms` and `bench shapes` measured.
// Measures nothing itself.
#include "tools/model/compare_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "base/options.h"
#include "tools/bench/report.h"
#include "tools/cli/commands.h"
#include "tools/cli/inputs.h"
#include "tools/cli/json_file.h"
#include "tools/cli/text.h"
#include "tools/model/compare.h"
#include "tools/model/profile.h"

namespace zh::tools {
namespace {

using nlohmann::json;

struct ModelCompareArguments {
  std::string file;
  std::string profile;
  bool points = false;
  bool as_json = false;
};

int refuse_model_compare(const std::string& why) {
  fmt::print(stderr, "zerohop model: {}\n", why);
  return 2;
}

const char* way_of(bool walk) { return walk ? "walk" : "closed form"; }

std::string case_name(const ModelCase& c) {
  std::string name = fmt::format("{} {}", coll::name_of(c.collective), c.algorithm);
  if (c.chunk > 0) name += "/" + format_size(c.chunk);
  if (c.stride > 0) name += " strided";
  return name +
         fmt::format(" {}x{}{}", c.cluster.nodes, c.cluster.ranks_per_node(), c.cluster.cyclic ? " in turn" : "");
}

/// "4K", and as the paper has it "4K8S": 4 KiB at a stride of 8.
std::string shape_name(const ModelCase& c) {
  return format_size(c.bytes) + (c.stride > 0 ? format_size(c.stride) + "S" : "");
}

json model_values_json(const ByModel& values) {
  json out;
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i]) out[std::string(name_of(model::kAllModels[i]))] = *values[i];
  }
  return out;
}

json case_json(const ModelCase& c) {
  return {{"collective", coll::name_of(c.collective)},
          {"algorithm", c.algorithm},
          {"chunk_bytes", c.chunk},
          {"ranks", c.cluster.ranks},
          {"nodes", c.cluster.nodes},
          {"cyclic", c.cluster.cyclic},
          {"strided", c.stride > 0}};
}

json comparison_json(const Comparison& c) {
  json out = case_json(c.measured.what);
  out["bytes"] = c.measured.what.bytes;
  out["stride"] = c.measured.what.stride;
  out["measured_us"] = interval_json(c.measured.us);
  out["closed_form_us"] = model_values_json(c.form);
  out["walk_us"] = model_values_json(c.walk);
  if (!c.no_walk.empty()) out["no_walk"] = c.no_walk;
  return out;
}

json summary_json(const ErrorSummary& s) {
  json out = case_json(s.what);
  out["prediction"] = s.walk ? "walk" : "closed_form";
  out["points"] = s.points;
  out["measured_spread"] = s.spread;
  out["mean_error"] = model_values_json(s.mean);
  out["greatest_error"] = model_values_json(s.greatest);
  return out;
}

/// A column for each model.
void print_models(int width, const std::function<std::string(size_t)>& text) {
  for (size_t i = 0; i < model::kAllModels.size(); ++i) fmt::print(" {:>{}}", text(i), width);
  fmt::print("\n");
}

std::string signed_percent(double share) {
  return share < 9.995 ? fmt::format("{:.1f}", 100 * share) : fmt::format("{:.0f}", 100 * share);
}

void print_compared_points(const std::vector<Comparison>& comparisons) {
  constexpr int kWidth = 13;
  fmt::print("{:<34} {:>8} {:>26}  {:<11}", "µs", "bytes", "measured", "");
  print_models(kWidth, [](size_t i) { return std::string(name_of(model::kAllModels[i])); });
  for (const Comparison& c : comparisons) {
    const auto line = [&](bool walk, const ByModel& us) {
      fmt::print("{:<34} {:>8} {:>26}  {:<11}", case_name(c.measured.what), shape_name(c.measured.what),
                 interval_text(c.measured.us), way_of(walk));
      print_models(kWidth, [&](size_t i) { return us[i] ? number_text(*us[i]) : "-"; });
    };
    if (any(c.form)) line(false, c.form);
    if (any(c.walk)) line(true, c.walk);
  }
  fmt::print("\n");
}

void print_summaries(const std::vector<ErrorSummary>& all) {
  constexpr int kWidth = 15;
  fmt::print("{:<34} {:<11} {:>6} {:>8}", "error in %, mean / greatest", "", "points", "spread");
  print_models(kWidth, [](size_t i) { return std::string(name_of(model::kAllModels[i])); });
  for (const ErrorSummary& s : all) {
    fmt::print("{:<34} {:<11} {:>6} {:>8}", case_name(s.what), way_of(s.walk), s.points, signed_percent(s.spread));
    print_models(kWidth, [&](size_t i) {
      return s.mean[i] ? signed_percent(*s.mean[i]) + " / " + signed_percent(*s.greatest[i]) : "-";
    });
  }
}

int compare_file(const ModelCompareArguments& a) {
  std::string problem;
  const json document = read_json(a.file, &problem);
  if (!problem.empty()) return refuse_model_compare(a.file + ": " + problem);
  const auto cases = measured_cases(document, &problem);
  if (!cases) return refuse_model_compare(a.file + ": " + problem);
  const auto parameters = find_profile(a.profile, &problem);
  if (!parameters) return refuse_model_compare(problem);
  std::vector<Comparison> comparisons;
  for (const MeasuredCase& m : *cases) {
    if (m.what.algorithm != kOwnChoice) comparisons.push_back(compare(m, *parameters));
  }
  const std::vector<ErrorSummary> all = summaries(comparisons);
  if (a.as_json) {
    json out = {{"schema", "zerohop-model-comparison/1"},
                {"profile", profile_origin_json(*parameters)},
                {"points", json::array()},
                {"summaries", json::array()}};
    for (const Comparison& c : comparisons) out["points"].push_back(comparison_json(c));
    for (const ErrorSummary& s : all) out["summaries"].push_back(summary_json(s));
    std::printf("%s\n", out.dump(2).c_str());
    return 0;
  }
  const size_t columns = output_columns();
  std::fputs(hanging("profile " + parameters->name + ": ", parameters->about, columns).c_str(), stdout);
  fmt::print("\n");
  if (a.points) print_compared_points(comparisons);
  print_summaries(all);
  std::fputs(("\n" + hanging("",
                             "1x8: 1 node of 8 ranks. Measured is the slowest rank's time; spread is half its 95 % "
                             "interval. An error below the spread says nothing.",
                             columns))
                 .c_str(),
             stdout);
  return 0;
}

}  // namespace

void add_model_compare_command(CLI::App* model) {
  auto a = std::make_shared<ModelCompareArguments>();
  CLI::App* command = model->add_subcommand(
      "compare", "Predictions beside what `zerohop bench algorithms` and `bench shapes` measured.");
  command->footer(
      "Each measured algorithm is predicted by four models: by the paper's closed form where it has one, and by a\n"
      "walk. The table has the mean and the greatest error of each, beside the spread of the measurement.\n\n"
      "  zerohop tune --json here.json\n"
      "  zerohop bench algorithms --only bcast --ranks 2 --json measured.json\n"
      "  zerohop model compare measured.json --profile here.json\n"
      "  zerohop bench shapes --ranks 2 --line near --json shapes.json      the paper's\n"
      "  zerohop model compare shapes.json --profile here.json      strided broadcasts\n\n"
      "Ends with 0 however far they are apart, or 2 if there is nothing to compare.");
  command->add_option("file", a->file, "What `zerohop bench algorithms --json` or `bench shapes --json` wrote")
      ->required()
      ->check(&wrong_input);
  command->add_option("-p,--profile", a->profile, "The machine's profile: a file, or a built-in one")->required();
  command->add_flag("--points", a->points, "Every size by itself, too");
  command->add_flag("--json", a->as_json, "Print JSON: points and summaries; errors are shares, 0.05 for 5 %");
  command->callback([a] { exit_code = compare_file(*a); });
}

}  // namespace zh::tools
