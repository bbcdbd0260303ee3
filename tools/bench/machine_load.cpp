// See machine_load.h.
#include "tools/bench/machine_load.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <thread>
#include <vector>

namespace zh::tools {
namespace {

constexpr double kShortestRoundS = 0.5;

double limit_of(const MachineLoad& l) { return std::max(0.2, 0.02 * l.processors); }

std::string file_text(const char* path) {
  std::ifstream in(path);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

/// Processes that run or wait for a processor, without the caller; the load average of the last minute beside.
int waiting_now(double* load_average) {
  int running = 1;
  double minute = 0;
  if (std::sscanf(file_text("/proc/loadavg").c_str(), "%lf %*f %*f %d/", &minute, &running) == 2)
    *load_average = minute;
  return std::max(0, running - 1);
}

double used_by(int who) {
  rusage used{};
  if (getrusage(who, &used) != 0) return 0;
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6;
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

}  // namespace

std::optional<double> busy_seconds_of(const std::string& proc_stat, double ticks_per_second) {
  std::istringstream in(proc_stat);
  std::string name;
  in >> name;
  double user = 0, niced = 0, system = 0, idle = 0, disk = 0, interrupts = 0, soft = 0, stolen = 0;
  if (name != "cpu" || !(in >> user >> niced >> system >> idle >> disk >> interrupts >> soft >> stolen))
    return std::nullopt;
  const double busy = user + niced + system + interrupts + soft + stolen;
  if (busy + idle <= 0 || ticks_per_second <= 0) return std::nullopt;
  return busy / ticks_per_second;
}

bool MachineLoad::busy_at_start() const { return known && (at_start >= limit_of(*this) || waiting >= 1); }
bool MachineLoad::busy_during() const { return known && during >= limit_of(*this); }

std::string start_line_of(const MachineLoad& load) {
  if (!load.busy_at_start()) return {};
  return fmt::format(
      "the machine is busy: other programs use {:.1f} of {} processors, {} run or wait (load average {:.1f}); times "
      "will "
      "be longer and vary more",
      load.at_start, load.processors, load.waiting, load.load_average);
}

std::string run_line_of(const MachineLoad& load) {
  if (!load.busy_during()) return {};
  return fmt::format(
      "The machine was busy: other programs used {:.1f} of {} processors during the run, {:.1f} in the busiest round.",
      load.during, load.processors, load.most);
}

nlohmann::json json_of(const MachineLoad& load) {
  if (!load.known) return nullptr;
  return {{"processors", load.processors},
          {"load_average", load.load_average},
          {"waiting_at_start", load.waiting},
          {"others_at_start", load.at_start},
          {"others_during", load.during},
          {"others_most", load.most},
          {"busy", load.busy_at_start() || load.busy_during()}};
}

MachineLoad load_from(const nlohmann::json& j) {
  MachineLoad load;
  if (!j.is_object()) return load;
  load.known = true;
  load.processors = j.value("processors", 0);
  load.load_average = j.value("load_average", 0.0);
  load.waiting = j.value("waiting_at_start", 0);
  load.at_start = j.value("others_at_start", 0.0);
  load.during = j.value("others_during", 0.0);
  load.most = j.value("others_most", 0.0);
  return load;
}

std::optional<LoadWatch::Moment> LoadWatch::now() {
  const auto busy = busy_seconds_of(file_text("/proc/stat"), static_cast<double>(sysconf(_SC_CLK_TCK)));
  if (!busy) return std::nullopt;
  return Moment{std::chrono::steady_clock::now(), *busy, used_by(RUSAGE_SELF) + used_by(RUSAGE_CHILDREN)};
}

double LoadWatch::others(const Moment& from, const Moment& to) {
  const double wall = std::chrono::duration<double>(to.when - from.when).count();
  if (wall <= 0) return 0;
  return std::max(0.0, (to.busy_s - from.busy_s - (to.own_s - from.own_s)) / wall);
}

LoadWatch::LoadWatch() {
  constexpr int kLooks = 10;
  const auto before = now();
  if (!before) return;
  std::vector<int> waiting;
  for (int i = 0; i < kLooks; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    waiting.push_back(waiting_now(&load_.load_average));
  }
  const auto after = now();
  if (!after) return;
  std::sort(waiting.begin(), waiting.end());
  load_.known = true;
  load_.processors = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  load_.waiting = waiting[kLooks / 2];
  load_.at_start = others(*before, *after);
  begun_ = last_ = *after;
}

void LoadWatch::look() {
  const auto here = load_.known ? now() : std::nullopt;
  if (!here || here->when - last_.when < std::chrono::duration<double>(kShortestRoundS)) return;
  load_.most = std::max(load_.most, others(last_, *here));
  load_.during = others(begun_, *here);
  last_ = *here;
}

}  // namespace zh::tools
