// `zerohop top`: the jobs of this user that run here under zerohop: what each rank does, for whom it waits, and whether
// that will ever end. Finds the jobs, and shows them once, as JSON, or on a screen; also the watcher of `zerohop run
// --hang-report`.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <memory>

#include "os/clock.h"
#include "tools/cli/commands.h"
#include "tools/cli/inputs.h"
#include "tools/cli/text.h"
#include "tools/top/draw.h"
#include "tools/top/hang.h"
#include "tools/top/screen.h"

namespace zh::tools {
namespace {

using top::Job;
using top::JobLook;
using Jobs = std::vector<std::unique_ptr<Job>>;

struct TopArguments {
  std::string job;
  pid_t pid = 0;
  bool once = false;
  bool as_json = false;
  double interval_s = 1;
  std::string hang_report;
};

constexpr const char* kNoJob =
    "zerohop top: no job of this user runs here under zerohop%s. A job is not seen if\n"
    "  it was not started by `zerohop run`, or its MPI library is none that zerohop serves,\n"
    "  ZEROHOP_ENABLE=0 switches zerohop off, or it has not come through MPI_Init yet,\n"
    "  it belongs to another user, or runs on another node,\n"
    "  it runs in a container whose processes cannot be seen from here.\n";

Jobs matching_jobs(const TopArguments& arguments) {
  Jobs jobs = top::find_jobs(arguments.pid);
  if (!arguments.job.empty()) std::erase_if(jobs, [&](const auto& job) { return job->id() != arguments.job; });
  return jobs;
}

void sleep_s(double seconds) { usleep(static_cast<useconds_t>(seconds * 1e6)); }

nlohmann::json document_of_jobs() {
  return {{"schema", 1}, {"version", ZH_VERSION}, {"jobs", nlohmann::json::array()}};
}

/// Names of programs may hold anything.
void print_json(const nlohmann::json& document) {
  std::printf("%s\n", document.dump(2, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
}

/// All of them, by two looks with the interval between.
int show_once(const Jobs& jobs, const TopArguments& arguments) {
  std::vector<JobLook> before;
  for (const auto& job : jobs) before.push_back(job->look());
  sleep_s(arguments.interval_s);
  nlohmann::json document = document_of_jobs();
  top::View view;
  view.columns = output_columns();
  for (size_t i = 0; i < jobs.size(); ++i) {
    const JobLook now = jobs[i]->look();
    if (arguments.as_json) {
      document["jobs"].push_back(top::to_json(before[i], now));
      continue;
    }
    for (const std::string& line : top::draw(before[i], now, view)) std::printf("%s\n", line.c_str());
    if (i + 1 < jobs.size()) std::printf("\n");
  }
  if (arguments.as_json) print_json(document);
  return 0;
}

const std::vector<std::string> kKeys = {"q  quit",
                                        "s  sort by the next of rank, wait, traffic, CPU",
                                        "j  the next job",
                                        "p  pause, and go on",
                                        "h  this page, and back",
                                        "",
                                        "for         how long the rank does this; computing: since it last called MPI",
                                        "with        the ranks that it waits for: 1,2 both, 1|2 either, any",
                                        "messages    sent and received, bytes and messages in a second",
                                        "unexpected  messages that no receive has asked for yet, and the most ever",
                                        "posted      receives whose messages have not come",
                                        "memory      of the node's shared memory, that the rank has taken",
                                        "inline ...  messages by their way",
                                        "",
                                        "Red: it waits for ever, or most others wait for it. Yellow: it waits long."};

/// The screen, until a key ends it or the last job has ended.
class Show {
 public:
  explicit Show(const TopArguments& arguments) : arguments_(arguments) {
    const char* no_color = std::getenv("NO_COLOR");
    view_.colors = no_color == nullptr || *no_color == '\0';
  }

  /// Whether it was a key.
  bool run(Jobs jobs) {
    jobs_ = std::move(jobs);
    take(0);
    top::Screen screen;
    const auto interval_ns = static_cast<uint64_t>(arguments_.interval_s * 1e9);
    while (!jobs_.empty()) {
      draw(&screen);
      const uint64_t next_ns = now_.seen_ns + interval_ns;
      const uint64_t ns = os::now_ns();
      const char key = screen.key(paused_ ? -1 : next_ns > ns ? static_cast<int>((next_ns - ns) / 1'000'000) + 1 : 0);
      if (key == 'q') return true;
      obey(key);
      if (!jobs_.empty() && !paused_ && os::now_ns() >= next_ns) look();
    }
    return false;
  }

 private:
  void take(size_t index) {
    chosen_ = index;
    before_ = now_ = jobs_[index]->look();
  }
  void look() {
    if (jobs_[chosen_]->ended()) {
      jobs_ = matching_jobs(arguments_);
      if (!jobs_.empty()) take(0);
      return;
    }
    before_ = std::move(now_);
    now_ = jobs_[chosen_]->look();
  }
  void obey(char key) {
    if (key == 's')
      view_.sort = static_cast<top::Sort>((static_cast<int>(view_.sort) + 1) % static_cast<int>(top::Sort::kCount));
    if (key == 'p') paused_ = !paused_;
    if (key == 'h') help_ = !help_;
    if (key != 'j') return;
    const uint64_t inode = jobs_[chosen_]->inode();
    jobs_ = matching_jobs(arguments_);
    const auto at = std::find_if(jobs_.begin(), jobs_.end(), [&](const auto& job) { return job->inode() == inode; });
    if (!jobs_.empty()) take(at == jobs_.end() ? 0 : static_cast<size_t>(at - jobs_.begin() + 1) % jobs_.size());
  }
  void draw(top::Screen* screen) {
    view_.columns = screen->columns();
    view_.lines = screen->lines() - 1;
    std::string last = "q quit  s sorted by " + std::string(top::to_string(view_.sort)) + "  j job " +
                       std::to_string(chosen_ + 1) + " of " + std::to_string(jobs_.size()) +
                       (paused_ ? "  p paused" : "  p pause") + "  h help";
    screen->show(help_ ? kKeys : top::draw(before_, now_, view_), last);
  }

  const TopArguments& arguments_;
  Jobs jobs_;
  size_t chosen_ = 0;
  JobLook before_, now_;
  top::View view_;
  bool paused_ = false;
  bool help_ = false;
};

int run_top(const TopArguments& arguments) {
  if (!arguments.hang_report.empty()) {
    top::watch(arguments.pid, patience_ns_of(arguments.hang_report));
    return 0;
  }
  Jobs jobs = matching_jobs(arguments);
  if (jobs.empty()) {
    const std::string which = !arguments.job.empty() ? " as job " + arguments.job
                              : arguments.pid != 0   ? " as process " + std::to_string(arguments.pid) + " or below it"
                                                     : "";
    std::fprintf(stderr, kNoJob, which.c_str());
    if (arguments.as_json) print_json(document_of_jobs());
    return 1;
  }
  if (arguments.once || arguments.as_json || !top::has_terminal()) return show_once(jobs, arguments);
  if (!Show(arguments).run(std::move(jobs))) std::printf("The job has ended.\n");
  return 0;
}

}  // namespace

void add_top_command(CLI::App& app) {
  auto arguments = std::make_shared<TopArguments>();
  CLI::App* command = app.add_subcommand(
      "top",
      "What the ranks of a running job do on this node: in which MPI call each is, for whom it waits and how long, "
      "and\n"
      "whether ranks wait for each other in a circle. Only reads the job's shared memory: the job does not notice.\n"
      "Exit code: 0 a job was found, 1 none, 2 wrong use.");
  command->footer(
      "  zerohop top                          a screen of the newest job; the key h explains it\n"
      "  zerohop top --once                   one look at each job, as a table\n"
      "  zerohop top --pid 4711 --json        the job of this rank, or that this launcher has started\n"
      "  mpiexec -n 8 zerohop run --hang-report 30 ./app\n"
      "                                       the job tells by itself when nothing moves");
  CLI::Option* job =
      command->add_option("--job", arguments->job, "The job of this number of the batch system, or lowest process");
  command->add_option("--pid", arguments->pid, "The job of this process, or of those that it has started")
      ->check(CLI::Range(1, std::numeric_limits<pid_t>::max()))
      ->excludes(job);
  command->add_flag("--once", arguments->once, "Print one look and end, as where there is no terminal");
  command->add_flag("--json", arguments->as_json, "Print one look as JSON");
  command->add_option("--interval", arguments->interval_s, "Seconds between two looks")
      ->check(number_in(0.3, 3600))
      ->capture_default_str();
  command->add_option("--hang-report", arguments->hang_report)->group("");
  command->callback([arguments] { exit_code = run_top(*arguments); });
}

}  // namespace zh::tools
