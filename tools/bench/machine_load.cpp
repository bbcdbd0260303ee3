// See machine_load.h.
#include "tools/bench/machine_load.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <sstream>
#include <thread>

#include "tools/cli/inputs.h"
#include "tools/cli/text.h"

namespace zh::tools {
namespace {

constexpr double kShortestRoundS = 0.5;

double limit_of(const MachineLoad& l) { return std::max(0.2, 0.02 * l.processors); }

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

bool MachineLoad::busy_at_start() const { return known && others_at_start >= limit_of(*this); }
bool MachineLoad::busy_during() const { return known && others_during >= limit_of(*this); }

std::string start_line_of(const MachineLoad& load) {
  if (!load.busy_at_start()) return {};
  return fmt::format(
      "the machine is busy: other programs use {:.1f} of {} processors; times will be longer and vary more",
      load.others_at_start, load.processors);
}

std::string run_line_of(const MachineLoad& load) {
  if (!load.busy_during()) return {};
  return fmt::format(
      "The machine was busy: other programs used {:.1f} of {} processors during the run, {:.1f} in the busiest round.",
      load.others_during, load.processors, load.others_most);
}

nlohmann::json json_of(const MachineLoad& load) {
  nlohmann::json out = load.known ? nlohmann::json(load) : nlohmann::json();
  if (load.known) out["busy"] = load.busy_at_start() || load.busy_during();
  return out;
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

LoadWatch::LoadWatch(const std::string& command) {
  const auto before = now();
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  const auto after = now();
  if (!before || !after) return;
  load_.known = true;
  load_.processors = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  load_.others_at_start = others(*before, *after);
  begun_ = last_ = *after;
  if (load_.busy_at_start()) fmt::print(stderr, "zerohop {}: {}\n", command, start_line_of(load_));
}

void LoadWatch::look() {
  const auto here = load_.known ? now() : std::nullopt;
  if (!here || here->when - last_.when < std::chrono::duration<double>(kShortestRoundS)) return;
  load_.others_most = std::max(load_.others_most, others(last_, *here));
  load_.others_during = others(begun_, *here);
  last_ = *here;
}

nlohmann::json LoadWatch::end() {
  look();
  print_shown(run_line_of(load_));
  return json_of(load_);
}

}  // namespace zh::tools
