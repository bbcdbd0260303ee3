// See profile.h.
#include "tools/model/profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <string_view>

#include "model/profiles.h"
#include "tools/cli/json_file.h"

namespace zh::tools {
namespace {

using model::CacheSize;
using model::CommLevel;
using model::CopyThresholds;
using model::CostTable;
using model::LevelCosts;
using model::MachineFacts;
using model::MeasuredLevel;
using model::Parameters;
using model::StridedCosts;
using nlohmann::json;

constexpr const char* kFormat = "zerohop-model-profile";
constexpr int kVersion = 1;
constexpr const char* kTableForm = "a list of [bytes, microseconds], for example [[0, 1.5], [1024, 3]]";

json table_json(const CostTable& table) {
  json out = json::array();
  for (const CostTable::Point& point : table.points) out.push_back({point.bytes, point.us});
  return out;
}

constexpr const char* kNeverText = "never";

json level_json(const LevelCosts& costs) {
  json out = {{"overhead", table_json(costs.overhead)}};
  if (!costs.network.empty()) out["network"] = table_json(costs.network);
  if (!costs.link.empty()) out["link"] = table_json(costs.link);
  if (!costs.gap.empty()) out["gap"] = table_json(costs.gap);
  if (costs.latency.rows.empty()) return out;
  out["latency"] = json::array();
  for (const StridedCosts::Row& row : costs.latency.rows) {
    out["latency"].push_back({{"stride", row.stride}, {"us", table_json(row.table)}});
  }
  return out;
}

json measured_json(const MeasuredLevel& m) {
  json out = m.stands_for.empty() ? level_json(m.costs) : json::object();
  if (!m.stands_for.empty()) out["stands_for"] = m.stands_for;
  out["level"] = m.level;
  if (!m.processors.empty()) out["processors"] = m.processors;
  out["placement"] = m.placement;
  if (m.line_us > 0) out["line_us"] = m.line_us;
  out["launches"] = m.launches;
  out["noisy"] = m.noisy;
  return out;
}

json cache_json(const CacheSize& cache) {
  json out = {{"name", cache.name}};
  if (cache.described != 0) out["described"] = cache.described;
  if (cache.measured == 0) return out;
  out["measured"] = cache.measured;
  if (cache.at_least) out["at_least"] = true;
  out["noisy"] = cache.noisy;
  return out;
}

json copies_json(const CopyThresholds& copies) {
  json out = {{"level", copies.level}};
  const auto add = [&](const char* key, const std::optional<uint64_t>& from) {
    if (from) out[key] = *from == model::kNeverWins ? json(kNeverText) : json(*from);
  };
  add("nontemporal", copies.nontemporal);
  add("kernel_both", copies.kernel_both);
  add("mapped_both", copies.mapped_both);
  return out;
}

json contention_json(const model::Contention& c) {
  return {{"way", c.way}, {"bytes", c.bytes}, {"us", c.us}, {"noisy", c.noisy}};
}

/// What was not measured is left out.
void add_facts(const MachineFacts& facts, json* out) {
  for (const MeasuredLevel& m : facts.levels) (*out)["measured_levels"].push_back(measured_json(m));
  for (const CacheSize& cache : facts.caches) (*out)["caches"].push_back(cache_json(cache));
  for (const CopyThresholds& copies : facts.copies) (*out)["copies"].push_back(copies_json(copies));
  for (const model::Contention& c : facts.contention) (*out)["contention"].push_back(contention_json(c));
}

/// Reads one document. The first thing that is wrong becomes the problem; after it nothing is read.
class Reader {
 public:
  Parameters read(const json& document) {
    Parameters p;
    if (!document.is_object()) {
      fail("no JSON object");
      return p;
    }
    if (!document.contains("format") || document["format"] != kFormat) {
      fail(fmt::format("it has no \"format\": \"{}\", so it is another kind of file", kFormat));
      return p;
    }
    if (!document.contains("version") || document["version"] != kVersion) {
      const std::string version = document.contains("version") ? document["version"].dump() : "missing";
      fail(fmt::format("\"version\" is {}, and this zerohop reads version {} alone", version, kVersion));
      return p;
    }
    known(document, "",
          {"format", "version", "name", "about", "sources", "chips_per_node", "processors_per_node", "levels",
           "measured_levels", "caches", "copies", "contention"});
    p.name = text(document, "name");
    p.about = document.contains("about") ? text(document, "about") : "";
    sources(document, &p);
    if (document.contains("processors_per_node"))
      p.processors_per_node = whole(document["processors_per_node"], "processors_per_node");
    p.chips_per_node = document.contains("chips_per_node") ? whole(document["chips_per_node"], "chips_per_node") : 1;
    levels(document, &p);
    facts(document, &p.facts);
    if (problem_.empty()) problem_ = p.fault();
    return p;
  }

  [[nodiscard]] const std::string& problem() const { return problem_; }

 private:
  void fail(const std::string& problem) {
    if (problem_.empty()) problem_ = problem;
  }

  /// A misspelt key would silently count for nothing.
  void known(const json& object, const std::string& where, std::initializer_list<std::string_view> keys) {
    for (const auto& [key, ignored] : object.items()) {
      if (std::find(keys.begin(), keys.end(), key) == keys.end()) {
        fail(fmt::format("{}{}: there is no such key; there are {}", where, key, fmt::join(keys, ", ")));
      }
    }
  }

  std::string text(const json& object, const char* key) {
    const auto it = object.find(key);
    if (it != object.end() && it->is_string()) return it->get<std::string>();
    fail(fmt::format("{}: a text, please", key));
    return "";
  }

  uint32_t whole(const json& value, const std::string& where) {
    if (value.is_number_integer() && value >= 0 && value <= UINT32_MAX) return value.get<uint32_t>();
    fail(fmt::format("{}: a whole number, please, 0 or more; it is {}", where, value.dump()));
    return 0;
  }

  void sources(const json& document, Parameters* p) {
    if (!document.contains("sources")) return;
    p->sources = texts(document["sources"], "sources");
  }

  std::vector<std::string> texts(const json& list, const std::string& where) {
    const auto is_text = [](const json& line) { return line.is_string(); };
    if (list.is_array() && std::all_of(list.begin(), list.end(), is_text)) return list.get<std::vector<std::string>>();
    fail(where + ": a list of texts, please");
    return {};
  }

  CostTable table(const json& list, const std::string& where) {
    CostTable out;
    if (!list.is_array()) {
      fail(fmt::format("{}: {}, please", where, kTableForm));
      return out;
    }
    for (const json& point : list) {
      if (!point.is_array() || point.size() != 2 || !point[0].is_number() || !point[1].is_number()) {
        fail(fmt::format("{}: point {} is {}; a table is {}", where, out.points.size() + 1, point.dump(), kTableForm));
        return out;
      }
      out.points.push_back({point[0].get<double>(), point[1].get<double>()});
    }
    return out;
  }

  StridedCosts latency(const json& list, const std::string& where) {
    StridedCosts out;
    constexpr const char* kForm = R"(a list of {"stride": bytes, "us": [[bytes, microseconds], ...]})";
    if (!list.is_array()) fail(fmt::format("{}: {}, please", where, kForm));
    for (const json& row : list) {
      if (!row.is_object() || !row.contains("stride") || !row.contains("us")) {
        fail(fmt::format("{}: row {} is none of {}", where, out.rows.size() + 1, kForm));
        return out;
      }
      known(row, where + ".", {"stride", "us"});
      out.rows.push_back({whole(row["stride"], where + ".stride"), table(row["us"], where + ".us")});
    }
    return out;
  }

  void levels(const json& document, Parameters* p) {
    if (!document.contains("levels") || !document["levels"].is_object()) {
      return fail(R"(levels: an object with "intra-cmp", "inter-node" and, if known, "inter-cmp", please)");
    }
    const json& levels = document["levels"];
    known(levels, "levels.", {"intra-cmp", "inter-cmp", "inter-node"});
    for (const CommLevel level : model::kAllLevels) {
      const std::string name(name_of(level));
      const std::string where = "levels." + name;
      const bool there = levels.contains(name);
      if (level == CommLevel::kInterChip) p->has_inter_chip = there;
      if (!there && level == CommLevel::kInterChip) continue;
      if (!there || !levels[name].is_object()) return fail(where + ": an object with its tables, please");
      known(levels[name], where + ".", {"overhead", "latency", "network", "link", "gap"});
      p->levels[static_cast<size_t>(level)] = costs(levels[name], where + ".");
    }
  }

  LevelCosts costs(const json& object, const std::string& where) {
    LevelCosts out;
    if (object.contains("overhead")) out.overhead = table(object["overhead"], where + "overhead");
    if (object.contains("latency")) out.latency = latency(object["latency"], where + "latency");
    if (object.contains("network")) out.network = table(object["network"], where + "network");
    if (object.contains("link")) out.link = table(object["link"], where + "link");
    if (object.contains("gap")) out.gap = table(object["gap"], where + "gap");
    return out;
  }

  void facts(const json& document, MachineFacts* f) {
    each(document, "measured_levels",
         [&](const json& o, const std::string& at) { f->levels.push_back(measured(o, at)); });
    each(document, "caches", [&](const json& o, const std::string& at) { f->caches.push_back(cache(o, at)); });
    each(document, "copies", [&](const json& o, const std::string& at) { f->copies.push_back(copies(o, at)); });
    each(document, "contention",
         [&](const json& o, const std::string& at) { f->contention.push_back(contention(o, at)); });
  }

  /// Every object of a list that may be missing.
  template <typename Read>
  void each(const json& document, const char* key, const Read& read) {
    if (!document.contains(key)) return;
    const json& list = document[key];
    const auto is_object = [](const json& entry) { return entry.is_object(); };
    if (!list.is_array() || !std::all_of(list.begin(), list.end(), is_object)) {
      return fail(fmt::format("{}: a list of objects, please", key));
    }
    for (size_t i = 0; i < list.size(); ++i) read(list[i], fmt::format("{}, entry {}, ", key, i + 1));
  }

  MeasuredLevel measured(const json& object, const std::string& where) {
    known(object, where,
          {"level", "processors", "placement", "line_us", "launches", "noisy", "stands_for", "overhead", "latency",
           "network", "link", "gap"});
    MeasuredLevel m;
    m.level = text(object, "level");
    if (object.contains("processors")) {
      const json& list = object["processors"];
      if (!list.is_array()) fail(where + "processors: a list of whole numbers, please");
      for (const json& cpu : list) m.processors.push_back(whole(cpu, where + "processors"));
    }
    if (object.contains("placement")) m.placement = text(object, "placement");
    if (object.contains("line_us")) m.line_us = not_negative(object["line_us"], where + "line_us");
    if (object.contains("launches")) m.launches = whole(object["launches"], where + "launches");
    if (object.contains("noisy")) m.noisy = texts(object["noisy"], where + "noisy");
    if (object.contains("stands_for")) m.stands_for = text(object, "stands_for");
    m.costs = costs(object, where);
    return m;
  }

  CacheSize cache(const json& object, const std::string& where) {
    known(object, where, {"name", "described", "measured", "at_least", "noisy"});
    CacheSize c;
    c.name = text(object, "name");
    if (object.contains("described")) c.described = bytes(object["described"], where + "described");
    if (object.contains("measured")) c.measured = bytes(object["measured"], where + "measured");
    if (object.contains("at_least")) c.at_least = truth(object["at_least"], where + "at_least");
    if (object.contains("noisy")) c.noisy = truth(object["noisy"], where + "noisy");
    return c;
  }

  CopyThresholds copies(const json& object, const std::string& where) {
    known(object, where, {"level", "nontemporal", "kernel_both", "mapped_both"});
    CopyThresholds c;
    c.level = text(object, "level");
    const auto from = [&](const char* key) -> std::optional<uint64_t> {
      if (!object.contains(key)) return std::nullopt;
      if (object[key] == kNeverText) return model::kNeverWins;
      return bytes(object[key], where + key);
    };
    c.nontemporal = from("nontemporal");
    c.kernel_both = from("kernel_both");
    c.mapped_both = from("mapped_both");
    return c;
  }

  model::Contention contention(const json& object, const std::string& where) {
    known(object, where, {"way", "bytes", "us", "noisy"});
    model::Contention c;
    c.way = text(object, "way");
    c.bytes = object.contains("bytes") ? bytes(object["bytes"], where + "bytes") : 0;
    if (object.contains("noisy")) c.noisy = truth(object["noisy"], where + "noisy");
    const json list = object.contains("us") ? object["us"] : json::array();
    uint32_t last = 0;
    for (const json& at : list.is_array() ? list : json::array({list})) {
      const bool pair = at.is_array() && at.size() == 2 && at[0].is_number_unsigned() && at[1].is_number() &&
                        at[0] > last && at[1] > 0;
      if (!pair) {
        fail(where + "us: a list of [readers, µs], please, by rising numbers from 1 on");
        return c;
      }
      last = at[0].get<uint32_t>();
      c.us.emplace_back(last, at[1].get<double>());
    }
    if (c.us.empty() || c.us.front().first != 1) fail(where + "us: a list of [readers, µs], please, the first of 1");
    return c;
  }

  uint64_t bytes(const json& value, const std::string& where) {
    if (value.is_number_integer() && value >= 0) return value.get<uint64_t>();
    fail(fmt::format("{}: a number of bytes, please; it is {}", where, value.dump()));
    return 0;
  }

  double not_negative(const json& value, const std::string& where) {
    if (value.is_number() && value >= 0) return value.get<double>();
    fail(fmt::format("{}: a number, please, 0 or more; it is {}", where, value.dump()));
    return 0;
  }

  bool truth(const json& value, const std::string& where) {
    if (value.is_boolean()) return value.get<bool>();
    fail(fmt::format("{}: true or false, please; it is {}", where, value.dump()));
    return false;
  }

  std::string problem_;
};

}  // namespace

json profile_json(const Parameters& p) {
  json levels;
  for (const CommLevel level : model::kAllLevels) {
    if (level == CommLevel::kInterChip && !p.has_inter_chip) continue;
    levels[std::string(name_of(level))] = level_json(p.levels[static_cast<size_t>(level)]);
  }
  json out = {{"format", kFormat}, {"version", kVersion},  {"name", p.name},
              {"about", p.about},  {"sources", p.sources}, {"chips_per_node", p.chips_per_node},
              {"levels", levels}};
  if (p.processors_per_node > 0) out["processors_per_node"] = p.processors_per_node;
  add_facts(p.facts, &out);
  return out;
}

json profile_origin_json(const Parameters& p) { return {{"name", p.name}, {"about", p.about}, {"sources", p.sources}}; }

std::optional<Parameters> profile_from(const json& document, std::string* problem) {
  Reader reader;
  Parameters p = reader.read(document);
  *problem = reader.problem();
  if (!problem->empty()) return std::nullopt;
  return p;
}

std::optional<Parameters> find_profile(const std::string& name_or_file, std::string* problem) {
  if (const Parameters* built_in = model::built_in_profile(name_or_file)) return *built_in;
  const json document = read_json(name_or_file, problem);
  if (!problem->empty()) {
    *problem = fmt::format("no profile {}: it is none of {}, and no file that can be read ({})", name_or_file,
                           built_in_names(), *problem);
    return std::nullopt;
  }
  std::string fault = "it is not JSON";
  std::optional<Parameters> out;
  if (!document.is_discarded()) out = profile_from(document, &fault);
  if (!out) {
    *problem = fmt::format("{} is no profile of a machine: {}; `zerohop model profile {}` prints one to start from",
                           name_or_file, fault, model::built_in_profiles().front().name);
  }
  return out;
}

std::string built_in_names() {
  std::string names;
  for (const Parameters& p : model::built_in_profiles()) names += (names.empty() ? "" : ", ") + p.name;
  return names;
}

}  // namespace zh::tools
