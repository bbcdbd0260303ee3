// See profile.h.
#include "tools/model/profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <concepts>
#include <string_view>
#include <utility>
#include <vector>

#include "model/profiles.h"
#include "tools/cli/inputs.h"

namespace zh::tools {
namespace {

using model::CommLevel;
using model::CostTable;
using model::Parameters;
using model::StridedCosts;
using nlohmann::json;

constexpr const char* kFormat = "zerohop-model-profile";
constexpr int kVersion = 1;
constexpr const char* kNeverText = "never";

// The keys of each object, for both directions.
template <typename Fields>
void visit(model::LevelCosts& c, Fields& f) {
  f("overhead", c.overhead);
  f("latency", c.latency);
  f("network", c.network);
  f("link", c.link);
  f("gap", c.gap);
}
template <typename Fields>
void visit(StridedCosts::Row& r, Fields& f) {
  f("stride", r.stride);
  f("us", r.table);
}
template <typename Fields>
void visit(model::MeasuredLevel& m, Fields& f) {
  f("level", m.level);
  f("processors", m.processors);
  f("placement", m.placement);
  f("line_us", m.line_us);
  f("launches", m.launches);
  f("noisy", m.noisy);
  f("stands_for", m.stands_for);
  visit(m.costs, f);
}
template <typename Fields>
void visit(model::CacheSize& c, Fields& f) {
  f("name", c.name);
  f("described", c.described);
  f("measured", c.measured);
  f("at_least", c.at_least);
  f("noisy", c.noisy);
}
template <typename Fields>
void visit(model::CopyThresholds& c, Fields& f) {
  f("level", c.level);
  f("nontemporal", c.nontemporal);
  f("kernel_both", c.kernel_both);
  f("mapped_both", c.mapped_both);
}
template <typename Fields>
void visit(model::Contention& c, Fields& f) {
  f("way", c.way);
  f("bytes", c.bytes);
  f("us", c.us);
  f("noisy", c.noisy);
}
template <typename Fields>
void visit(std::array<model::LevelCosts, model::kLevels>& levels, Fields& f) {
  for (const CommLevel level : model::kAllLevels) f(name_of(level), levels[static_cast<size_t>(level)]);
}
template <typename Fields>
void visit(Parameters& p, Fields& f) {
  f("name", p.name);
  f("about", p.about);
  f("sources", p.sources);
  f("chips_per_node", p.chips_per_node);
  f("processors_per_node", p.processors_per_node);
  f("levels", p.levels);
  f("measured_levels", p.facts.levels);
  f("caches", p.facts.caches);
  f("copies", p.facts.copies);
  f("contention", p.facts.contention);
}

/// Takes every field for one that is to be written. What has no value, or none but its default, is left out.
class Writer {
 public:
  template <typename T>
  void operator()(std::string_view key, T& value) {
    json written = to_json(value);
    const bool nothing = written.is_null() || written == json(0) || written == json(0.0) || written == json(false) ||
                         written == json("") || written.size() == 0;
    if (!nothing) out[std::string(key)] = std::move(written);
  }
  json out = json::object();

 private:
  static json to_json(CostTable& table) {
    json list = json::array();
    for (const CostTable::Point& point : table.points) list.push_back({point.bytes, point.us});
    return list;
  }
  static json to_json(StridedCosts& costs) { return to_json(costs.rows); }
  static json to_json(std::optional<uint64_t>& size) {
    return !size ? json() : *size == model::kNeverWins ? json(kNeverText) : json(*size);
  }
  template <typename T>
  static json to_json(T& value) {
    if constexpr (requires(Writer & w) { visit(value, w); }) {
      Writer inner;
      visit(value, inner);
      return inner.out;
    } else {
      return value;
    }
  }
  template <typename T>
  static json to_json(std::vector<T>& list) {
    json all = json::array();
    for (T& value : list) all.push_back(to_json(value));
    return all;
  }
};

/// Takes every field for one that may be read. The first thing that is wrong becomes the problem; after it nothing is
/// read.
class Reader {
 public:
  Reader(const json& object, std::string where, std::string* problem)
      : object_(object), where_(std::move(where)), problem_(*problem) {
    if (!object.is_object()) fail(where_.substr(0, where_.find_last_not_of(". ,") + 1), "an object, please");
  }

  template <typename T>
  void operator()(std::string_view key, T& value) {
    keys_.emplace_back(key);
    if (!problem_.empty() || !object_.contains(key)) return;
    read(object_[std::string(key)], where_ + std::string(key), &value);
  }
  /// A misspelt key would silently count for nothing; `also` are keys besides those of the fields.
  void end(std::initializer_list<const char*> also = {}) {
    keys_.insert(keys_.end(), also.begin(), also.end());
    for (const auto& [key, ignored] : object_.items()) {
      if (std::ranges::find(keys_, key) == keys_.end())
        fail(where_ + key, fmt::format("there is no such key; there are {}", fmt::join(keys_, ", ")));
    }
  }

 private:
  void fail(const std::string& where, const std::string& what) {
    if (problem_.empty()) problem_ = where + ": " + what;
  }
  bool wants(bool good, const json& value, const std::string& where, const char* what) {
    if (!good) fail(where, fmt::format("{}, please; it is {}", what, value.dump()));
    return good;
  }

  void read(const json& value, const std::string& where, std::string* out) {
    if (wants(value.is_string(), value, where, "a text")) *out = value;
  }
  void read(const json& value, const std::string& where, bool* out) {
    if (wants(value.is_boolean(), value, where, "true or false")) *out = value;
  }
  template <std::unsigned_integral T>
  void read(const json& value, const std::string& where, T* out) {
    const bool good = value.is_number_integer() && value >= 0 && value <= std::numeric_limits<T>::max();
    if (wants(good, value, where, "a whole number, 0 or more")) *out = value;
  }
  void read(const json& value, const std::string& where, double* out) {
    if (wants(value.is_number() && value >= 0, value, where, "a number, 0 or more")) *out = value;
  }
  void read(const json& value, const std::string& where, std::optional<uint64_t>* out) {
    *out = model::kNeverWins;
    if (value != kNeverText) read(value, where, &out->emplace());
  }
  void read(const json& value, const std::string& where, CostTable* out) {
    constexpr const char* kForm = "a list of [bytes, microseconds], for example [[0, 1.5], [1024, 3]]";
    if (!wants(value.is_array(), value, where, kForm)) return;
    for (const json& point : value) {
      const bool good = point.is_array() && point.size() == 2 && point[0].is_number() && point[1].is_number();
      if (!wants(good, point, fmt::format("{}: point {}", where, out->points.size() + 1), kForm)) return;
      out->points.push_back({point[0].get<double>(), point[1].get<double>()});
    }
  }
  void read(const json& value, const std::string& where, StridedCosts* out) { read(value, where, &out->rows); }
  /// Readers and µs, by rising numbers from one on.
  void read(const json& value, const std::string& where, std::pair<uint32_t, double>* out) {
    const bool good = value.is_array() && value.size() == 2 && value[0].is_number_integer() && value[1].is_number() &&
                      value[0] > 0 && value[1] > 0;
    if (wants(good, value, where, "[readers, µs]")) *out = value;
  }
  template <typename T>
  void read(const json& value, const std::string& where, std::vector<T>* out) {
    if (!wants(value.is_array(), value, where, "a list")) return;
    for (const json& entry : value) {
      const std::string at = fmt::format("{}, entry {}", where, out->size() + 1);
      read(entry, at, &out->emplace_back());
    }
  }
  template <typename T>
  requires requires(T& value, Reader& r) { visit(value, r); }
  void read(const json& value, const std::string& where, T* out) {
    Reader inner(value, where + (where.find(", entry ") == std::string::npos ? "." : ", "), &problem_);
    visit(*out, inner);
    if (problem_.empty()) inner.end();
  }

  const json& object_;
  std::string where_;
  std::string& problem_;
  std::vector<std::string> keys_;
};

/// What no table shows by itself.
std::string fault_of(const json& levels, const Parameters& p) {
  if (p.name.empty()) return "name: a text, please";
  for (const CommLevel level : {CommLevel::kIntraChip, CommLevel::kInterNode}) {
    if (!levels.contains(name_of(level)))
      return fmt::format("levels.{}: an object with its tables, please", name_of(level));
  }
  for (const model::Contention& c : p.facts.contention) {
    const auto falls = [](const auto& a, const auto& b) { return a.first >= b.first; };
    if (c.us.empty() || c.us.front().first != 1 || std::ranges::adjacent_find(c.us, falls) != c.us.end())
      return "contention: us: a list of [readers, µs], please, by rising numbers from 1 on";
  }
  return p.fault();
}

}  // namespace

json profile_json(const Parameters& parameters) {
  Parameters p = parameters;
  // What stands for a level of the models has its tables there.
  for (model::MeasuredLevel& m : p.facts.levels) {
    if (!m.stands_for.empty()) m.costs = {};
  }
  if (!p.has_inter_chip) p.levels[static_cast<size_t>(CommLevel::kInterChip)] = {};
  Writer writer;
  visit(p, writer);
  writer.out.update({{"format", kFormat}, {"version", kVersion}});
  return writer.out;
}

json profile_origin_json(const Parameters& p) { return {{"name", p.name}, {"about", p.about}, {"sources", p.sources}}; }

std::optional<Parameters> profile_from(const json& document, std::string* problem) {
  problem->clear();
  Parameters p;
  if (!document.is_object()) {
    *problem = "no JSON object";
  } else if (!document.contains("format") || document["format"] != kFormat) {
    *problem = fmt::format("it has no \"format\": \"{}\", so it is another kind of file", kFormat);
  } else if (!document.contains("version") || document["version"] != kVersion) {
    const std::string version = document.contains("version") ? document["version"].dump() : "missing";
    *problem = fmt::format("\"version\" is {}, and this zerohop reads version {} alone", version, kVersion);
  } else {
    Reader reader(document, "", problem);
    visit(p, reader);
    if (problem->empty()) reader.end({"format", "version"});
    const json levels = document.value("levels", json::object());
    p.has_inter_chip = levels.contains(name_of(CommLevel::kInterChip));
    if (problem->empty()) *problem = fault_of(levels, p);
  }
  return problem->empty() ? std::optional(p) : std::nullopt;
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
    *problem = fmt::format("{} is no profile of a machine: {}; `zerohop tune --profile {}` prints one to start from",
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
