// See costs.h.
#include "tools/model/costs.h"

#include <fmt/format.h>

#include "model/closed_forms.h"
#include "tools/cli/text.h"
#include "tools/model/profile.h"

namespace zh::tools {

using nlohmann::json;

json costs_json(const ModelCase& c, const std::vector<coll::Schedule>& schedules, const model::Parameters& parameters) {
  json out = {{"profile", profile_origin_json(parameters)},
              {"chips_per_node", c.cluster.chips_per_node},
              {"processors_per_node", c.cluster.processors_per_node},
              {"stride", c.stride},
              {"beyond_tables", beyond_tables(c, schedules, parameters)},
              {"notes", notes_on(c, schedules, parameters)}};
  const model::MessageShape shape{static_cast<double>(c.bytes), c.stride};
  const model::CostByLevel us = message_us(model::Model::kMlogNP, parameters, shape);
  for (const model::CommLevel level : model::kAllLevels)
    out["message_us"][std::string(name_of(level))] = us[static_cast<size_t>(level)];
  for (const model::Model m : model::kAllModels) {
    json line = {{"model", name_of(m)},
                 {"closed_form_us", nullptr},
                 {"equation", nullptr},
                 {"walk_us", walk_us(c, schedules, m, parameters)}};
    std::optional<model::Prediction> form;
    if (c.collective == coll::Collective::kBcast)
      form = closed_form(m, parameters, {c.algorithm, c.cluster, c.root, shape, c.chunk});
    if (form) line.update({{"closed_form_us", form->us}, {"equation", form->equation}});
    out["models"].push_back(std::move(line));
  }
  return out;
}

std::string costs_text(const json& costs, size_t columns) {
  const auto us = [](const json& value) {
    return value.is_null() ? std::string("-") : fmt::format("{:.2f}", value.get<double>());
  };
  Table table(
      {costs["beyond_tables"].get<bool>() ? "µs, beyond the tables" : "µs", "closed form", "walk", "the form is"});
  for (const json& m : costs["models"]) {
    table.add({m["model"].get<std::string>(), us(m["closed_form_us"]), us(m["walk_us"]),
               m["equation"].is_null() ? "not in the paper" : m["equation"].get<std::string>()});
  }
  std::string message;
  for (const auto& [level, value] : costs["message_us"].items())
    message += (message.empty() ? "" : ", ") + us(value) + " µs " + level;
  const json& profile = costs["profile"];
  std::string text =
      hanging("profile " + profile["name"].get<std::string>() + ": ", profile["about"].get<std::string>(), columns) +
      "\n" + table.text() + "\n" + hanging("one message of that size: ", message, columns);
  for (const json& note : costs["notes"]) text += hanging("- ", note.get<std::string>(), columns);
  return text;
}

}  // namespace zh::tools
