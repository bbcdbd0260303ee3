// Curves, the machine's identity, and the JSON file of a profile. Every number of a file is checked before it is used:
// a file may be cut off, edited, or of another version.
#include "tune/profile.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/options.h"
#include "copy/kernels.h"
#include "node/node.h"
#include "os/clock.h"
#include "os/process.h"
#include "tune/choice.h"
#include "tune/plausible.h"

namespace zh::tune {
namespace {

using nlohmann::json;
constexpr int kVersion = 4;
constexpr int64_t kDayS = 86'400;

struct NamedCurve {
  const char* name;
  Curve DistanceClass::*curve;
};
constexpr NamedCurve kCurves[] = {
    {"cells", &DistanceClass::cells},
    {"cells_nt", &DistanceClass::cells_nt},
    {"cma_read", &DistanceClass::cma_read},
    {"cma_write", &DistanceClass::cma_write},
    {"cma_both", &DistanceClass::cma_both},
    {"mapped_one", &DistanceClass::mapped_one},
    {"mapped_both", &DistanceClass::mapped_both},
};

json curve_json(const Curve& curve) {
  json out = json::array();
  for (uint32_t i = 0; i < curve.n; ++i) {
    const Curve::Point& p = curve.points[i];
    out.push_back({{"bytes", p.bytes}, {"us", p.us}, {"spread", p.spread}});
  }
  return out;
}

bool number(const json& object, const char* key, double low, double high, double* out) {
  const auto it = object.find(key);
  if (it == object.end() || !it->is_number()) return false;
  *out = it->get<double>();
  return std::isfinite(*out) && *out >= low && *out <= high;
}

bool read_curve(const json& list, Curve* out) {
  if (!list.is_array() || list.size() > Curve::kMaxPoints) return false;
  uint64_t last = 0;
  for (const json& p : list) {
    double bytes = 0;
    double us = 0;
    double spread = 0;
    if (!p.is_object() || !number(p, "bytes", 1, 1e12, &bytes) || !number(p, "us", 1e-4, 1e7, &us) ||
        !number(p, "spread", 0, 1e3, &spread)) {
      return false;
    }
    const auto size = static_cast<uint64_t>(bytes);
    if (size <= last) return false;
    last = size;
    out->add(size, static_cast<float>(us), static_cast<float>(spread));
  }
  return true;
}

bool read_class(const json& object, DistanceClass* out) {
  double level = 0;
  double line = 0;
  double ring = 0;
  double jobs = 0;
  double attempts = 0;
  double doubts = 0;
  double measured_at = 0;
  double looked_at = 0;
  if (!object.is_object() || !number(object, "level", 0, 16, &level) || !number(object, "line_ns", 0, 1e6, &line) ||
      !number(object, "ring_bytes", 1 << 12, 1 << 30, &ring) || !number(object, "jobs", 0, 1e6, &jobs) ||
      !number(object, "attempts", 0, 1e6, &attempts) || !number(object, "measured_at", 0, 1e11, &measured_at) ||
      !number(object, "doubts", 0, 1e6, &doubts) || !number(object, "looked_at", 0, 1e11, &looked_at)) {
    return false;
  }
  out->level = static_cast<int32_t>(level);
  out->line_ns = static_cast<float>(line);
  out->ring_bytes = static_cast<uint32_t>(ring);
  out->jobs = static_cast<uint32_t>(jobs);
  out->attempts = static_cast<uint32_t>(attempts);
  out->doubts = static_cast<uint32_t>(doubts);
  out->measured_at = static_cast<int64_t>(measured_at);
  out->looked_at = static_cast<int64_t>(looked_at);
  for (const NamedCurve& c : kCurves) {
    const auto it = object.find(c.name);
    if (it == object.end() || !read_curve(*it, &(out->*c.curve))) return false;
  }
  (void)drop_impossible(out);
  return true;
}

json machine_json(const MachineId& m) {
  return {{"cpu", m.cpu}, {"kernel", m.kernel}, {"hypervisor", m.hypervisor}, {"topology", m.topology}};
}

uint64_t fnv(const std::string& text, uint64_t hash) {
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  return (hash ^ 0xff) * 0x100000001b3U;
}
constexpr uint64_t kFnvStart = 0xcbf29ce484222325U;

std::string hex(uint64_t value) {
  char text[20];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(value));
  return text;
}

MachineId look_at_machine() {
  MachineId id;
  const std::string info = os::read_small_file("/proc/cpuinfo");
  for (const char* key : {"model name", "CPU part", "cpu model"}) {
    const size_t at = info.find(key);
    if (at == std::string::npos) continue;
    const size_t colon = info.find(':', at);
    const size_t end = info.find('\n', at);
    if (colon != std::string::npos && colon < end) id.cpu = info.substr(colon + 1, end - colon - 1);
    break;
  }
  while (!id.cpu.empty() && id.cpu.front() == ' ') id.cpu.erase(0, 1);
  id.cpu += std::string(", copies by ") + copy::kernel_name();
  id.kernel = os::read_small_file("/proc/sys/kernel/osrelease");
  id.hypervisor = os::read_small_file("/sys/class/dmi/id/sys_vendor") + "/" +
                  os::read_small_file("/sys/class/dmi/id/product_name") +
                  (info.find(" hypervisor ") != std::string::npos ? "/virtual" : "");
  const std::string online = os::read_small_file("/sys/devices/system/cpu/online");
  uint64_t hash = kFnvStart;
  constexpr int kLooked = 1024;
  for (int cpu = 0; cpu < kLooked; ++cpu) {
    const std::string folder = "/sys/devices/system/cpu/cpu" + std::to_string(cpu);
    const std::string core = os::read_small_file((folder + "/topology/core_id").c_str());
    if (core.empty()) break;
    hash = fnv(core, hash);
    hash = fnv(os::read_small_file((folder + "/topology/physical_package_id").c_str()), hash);
    for (int cache = 1; cache < 5; ++cache) {
      const std::string c = folder + "/cache/index" + std::to_string(cache);
      const std::string size = os::read_small_file((c + "/size").c_str());
      if (size.empty()) break;
      hash = fnv(size, hash);
      hash = fnv(os::read_small_file((c + "/shared_cpu_list").c_str()), hash);
    }
  }
  id.topology = online + ", " + hex(hash);
  return id;
}

}  // namespace

float Curve::us_at(uint64_t bytes) const {
  if (n == 1 || bytes <= points[0].bytes) return points[0].us;
  uint32_t i = 1;
  while (i + 1 < n && points[i].bytes < bytes) ++i;
  const Point& a = points[i - 1];
  const Point& b = points[i];
  const double slope = (static_cast<double>(b.us) - static_cast<double>(a.us)) / static_cast<double>(b.bytes - a.bytes);
  return static_cast<float>(static_cast<double>(a.us) + slope * static_cast<double>(bytes - a.bytes));
}

float Curve::worst_spread() const {
  float worst = 0;
  for (uint32_t i = 0; i < n; ++i) worst = points[i].spread > worst ? points[i].spread : worst;
  return worst;
}

bool named_profile(const std::string& name, Profile* out) {
  if (name != "papers" && name != "builtin") return false;
  *out = Profile{};
  out->papers = name == "papers" ? 1 : 0;
  return true;
}

std::string standing(const DistanceClass& c) {
  const int64_t now = os::seconds_since_1970();
  const auto hours = [now](int64_t then) { return static_cast<double>(std::max<int64_t>(0, now - then)) / 3600; };
  const char* state = in_force(c)                   ? "in force"
                      : c.attempts >= kMostAttempts ? "built-in choices; tried again after a day"
                                                    : "built-in choices until two jobs find the same";
  float noise = 0;
  bool any = false;
  for (const NamedCurve& named : kCurves) {
    any = any || !(c.*named.curve).empty();
    noise = std::max(noise, (c.*named.curve).worst_spread());
  }
  char line[256];
  std::snprintf(line, sizeof line, "%-13s found alike by %u of %u jobs, the last %.1f h ago, ",
                node::to_string(static_cast<node::Level>(c.level)), c.jobs, c.attempts, hours(c.measured_at));
  std::string text = line;
  if (any) {
    std::snprintf(line, sizeof line, "noise %.0f %%", static_cast<double>(100 * noise));
    text += line;
  } else {
    text += "nothing that can be true";
  }
  if (c.looked_at > c.measured_at) {
    std::snprintf(line, sizeof line, ", looked at %.1f h ago", hours(c.looked_at));
    text += line;
  }
  if (c.doubts > 0) text += ", contradicted since by " + std::to_string(c.doubts) + (c.doubts > 1 ? " jobs" : " job");
  return text + ": " + state;
}

uint64_t MachineId::hash() const {
  uint64_t h = kFnvStart;
  for (const std::string* part : {&cpu, &kernel, &hypervisor, &topology}) h = fnv(*part, h);
  return h;
}

const MachineId& this_machine() {
  static const MachineId found = look_at_machine();
  return found;
}

std::string read_file(const std::string& path, bool* exists) {
  std::string text;
  std::error_code none;
  // A pipe would keep whoever opens it waiting.
  if (*exists = std::filesystem::exists(path, none); !std::filesystem::is_regular_file(path, none)) return text;
  std::FILE* file = std::fopen(path.c_str(), "re");
  *exists = file != nullptr;
  if (file == nullptr) return text;
  char part[4096];
  constexpr size_t kMost = 1 << 20;
  for (size_t n = 0; text.size() < kMost && (n = std::fread(part, 1, sizeof part, file)) > 0;) text.append(part, n);
  std::fclose(file);
  return text;
}

const std::string& KeptFolders::with(const std::string& name) const {
  std::error_code none;
  const auto has = [&](const std::string& folder) {
    return !folder.empty() && std::filesystem::exists(folder + "/" + name, none);
  };
  return !has(own) && has(site) ? site : own;
}

namespace {

std::string own_folder(const std::string& chosen) {
  if (!chosen.empty()) return chosen;
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache != nullptr && cache[0] == '/') {
    return std::string(cache) + "/zerohop";
  }
  std::error_code none;
  const char* home = std::getenv("HOME");  // of a user without one it may name what is not there, and stays so
  if (home != nullptr && home[0] == '/' && std::filesystem::is_directory(home, none)) {
    return std::string(home) + "/.cache/zerohop";
  }
  return "";
}

std::string profile_name(const MachineId& machine) { return "calibration-" + hex(machine.hash()) + ".json"; }

}  // namespace

KeptFolders kept_folders(const std::string& chosen, const std::string& site) { return {own_folder(chosen), site}; }

KeptFolders kept_folders(const Options& options) {
  return kept_folders(options.get_text(Opt::kCache), options.get_text(Opt::kSite));
}

std::string profile_path(const std::string& folder, const MachineId& machine) {
  return folder.empty() ? "" : folder + "/" + profile_name(machine);
}

std::string profile_path(const KeptFolders& folders, const MachineId& machine) {
  return profile_path(folders.with(profile_name(machine)), machine);
}

Status load_profile(const KeptFolders& folders, const MachineId& machine, Profile* out) {
  const std::string& folder = folders.with(profile_name(machine));
  if (folder.empty()) return {Code::kWouldBlock, "no folder for the calibration"};
  bool exists = false;
  const std::string text = read_file(profile_path(folder, machine), &exists);
  if (!exists) return {Code::kWouldBlock, "no calibration kept for this machine"};
  const json document = json::parse(text, nullptr, false);
  if (!document.is_object()) return {Code::kInvalid, "the calibration file is corrupt (no JSON object)"};
  if (!document.contains("version") || document["version"] != kVersion) {
    return {Code::kInvalid, "the calibration file is of another version"};
  }
  if (!document.contains("machine") || document["machine"] != machine_json(machine)) {
    return {Code::kInvalid, "the calibration file is of another machine"};
  }
  const auto classes = document.find("classes");
  if (classes == document.end() || !classes->is_array() || classes->empty() || classes->size() > Profile::kMaxClasses) {
    return {Code::kInvalid, "the calibration file is corrupt (classes)"};
  }
  Profile profile;
  for (const json& c : *classes) {
    DistanceClass& out_class = profile.classes[profile.n_classes++];
    if (!read_class(c, &out_class)) return {Code::kInvalid, "the calibration file is corrupt (a curve)"};
    const bool rested = os::seconds_since_1970() - out_class.measured_at > kDayS;
    if (out_class.jobs < kConfirmed && rested) out_class.attempts = 0;
  }
  *out = profile;
  return kOk;
}

Status save_profile(const std::string& folder, const MachineId& machine, const Profile& profile) {
  if (folder.empty()) return {Code::kInvalid, "no folder for the calibration"};
  json document = {{"version", kVersion}, {"machine", machine_json(machine)}, {"classes", json::array()}};
  for (uint32_t i = 0; i < profile.n_classes; ++i) {
    const DistanceClass& c = profile.classes[i];
    json item = {{"level", c.level},   {"line_ns", c.line_ns},    {"ring_bytes", c.ring_bytes},
                 {"jobs", c.jobs},     {"attempts", c.attempts},  {"measured_at", c.measured_at},
                 {"doubts", c.doubts}, {"looked_at", c.looked_at}};
    for (const NamedCurve& named : kCurves) item[named.name] = curve_json(c.*named.curve);
    document["classes"].push_back(std::move(item));
  }
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return {Code::kIo, "cannot make the folder of the calibration", error.value()};
  const std::string path = profile_path(folder, machine);
  const std::string draft = path + "." + hex(os::random_token());
  // Text of another machine's identity may hold anything: no exception on bad UTF-8.
  const std::string text = document.dump(1, ' ', false, json::error_handler_t::replace) + "\n";
  std::FILE* file = std::fopen(draft.c_str(), "wxe");
  if (file == nullptr) return {Code::kIo, "cannot write the calibration", errno};
  const bool written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  if (std::fclose(file) != 0 || !written || std::rename(draft.c_str(), path.c_str()) != 0) {
    const int why = errno;
    std::remove(draft.c_str());
    return {Code::kIo, "cannot write the calibration", why};
  }
  return kOk;
}

}  // namespace zh::tune
