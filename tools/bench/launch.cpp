// See launch.h.
#include "tools/bench/launch.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <stdlib.h>  // mkdtemp
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <thread>

#include "base/options.h"
#include "os/program.h"
#include "tools/cli/inputs.h"

namespace zh::tools {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
constexpr const char* kSaid = "output.txt";  // of a scratch folder

/// A private folder for what a launch leaves, removed with everything in it. Signals that would end this process wait
/// for that: a launch has a group of its own, which a terminal's interrupt does not reach.
class ScratchFolder {
 public:
  ScratchFolder() {
    const char* base = std::getenv("TMPDIR");
    std::string name = fmt::format("{}/zerohop-bench-XXXXXX", base != nullptr && *base != 0 ? base : "/tmp");
    sigset_t ending;
    sigemptyset(&ending);
    for (const int number : kEnding) {
      struct sigaction now = {};
      if (sigaction(number, nullptr, &now) == 0 && now.sa_handler != SIG_IGN) sigaddset(&ending, number);
    }
    sigprocmask(SIG_BLOCK, &ending, &before_);
    if (mkdtemp(name.data()) != nullptr) path_ = name;
  }
  ~ScratchFolder() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove_all(path_, ignored);
    allow_signals();
  }
  void allow_signals() const { sigprocmask(SIG_SETMASK, &before_, nullptr); }
  [[nodiscard]] static bool interrupted() {
    sigset_t pending;
    sigpending(&pending);
    return std::ranges::any_of(kEnding, [&](int number) { return sigismember(&pending, number) == 1; });
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  [[nodiscard]] std::string file(const char* name) const { return (path_ / name).string(); }

 private:
  static constexpr int kEnding[] = {SIGINT, SIGTERM, SIGHUP};
  fs::path path_;
  sigset_t before_ = {};
};

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

std::string last_lines(const std::string& text, size_t most_bytes) {
  std::string tail = text.size() > most_bytes ? text.substr(text.size() - most_bytes) : text;
  while (!tail.empty() && tail.back() == '\n') tail.pop_back();
  return tail;
}

std::vector<std::string> environment_of(const std::map<std::string, std::string>& extra, bool keep_zerohop) {
  std::vector<std::string> out;
  for (char** e = environ; *e != nullptr; ++e) {
    const std::string entry = *e;
    const std::string name = entry.substr(0, entry.find('='));
    if (extra.count(name) != 0) continue;
    if (!keep_zerohop && (name == "LD_PRELOAD" || name.rfind("ZEROHOP_", 0) == 0)) continue;
    out.push_back(entry);
  }
  for (const auto& [name, value] : extra) out.push_back(name + "=" + value);
  return out;
}

std::vector<char*> pointers(std::vector<std::string>& strings) {
  std::vector<char*> p;
  p.reserve(strings.size() + 1);
  for (std::string& s : strings) p.push_back(s.data());
  p.push_back(nullptr);
  return p;
}

/// Runs a command in a process group of its own with its output in a file. Returns its wait status, or -1 when it could
/// not be started or had to be ended.
int run_grouped(std::vector<std::string> command, std::vector<std::string> environment, const ScratchFolder& scratch,
                double timeout_s) {
  std::vector<char*> argv = pointers(command);
  std::vector<char*> envp = pointers(environment);
  const pid_t child = fork();
  if (child < 0) return -1;
  if (child == 0) {
    setpgid(0, 0);
    scratch.allow_signals();
    const int in = open("/dev/null", O_RDONLY);
    const int out = open(scratch.file(kSaid).c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (in >= 0) dup2(in, 0);
    if (out >= 0) {
      dup2(out, 1);
      dup2(out, 2);
    }
    execvpe(argv[0], argv.data(), envp.data());
    _exit(127);
  }
  setpgid(child, child);
  const auto start = Clock::now();
  bool asked_to_end = false;
  int status = 0;
  while (waitpid(child, &status, WNOHANG) == 0) {
    const double t = seconds_since(start);
    if (!asked_to_end && (t > timeout_s || ScratchFolder::interrupted())) {
      kill(-child, SIGTERM);  // launchers pass this on to ranks that are not in this group
      asked_to_end = true;
      timeout_s = t;
    }
    if (t > timeout_s + 3) kill(-child, SIGKILL);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return asked_to_end ? -1 : status;
}

}  // namespace

LaunchResult run_launch(const LaunchSpec& spec) {
  LaunchResult r;
  const ScratchFolder scratch;
  const std::string document = scratch.file("result.json");
  const std::string said = scratch.file(kSaid);
  std::vector<std::string> command = spec.host->mpiexec;
  command.insert(command.end(), {"-n", std::to_string(spec.ranks)});
  command.insert(command.end(), spec.program.begin(), spec.program.end());
  command.insert(command.end(), {"--out", document});
  std::map<std::string, std::string> env = spec.host->env;
  for (const auto& [name, value] : spec.env) env[name] = value;
  const char* inherited = spec.zerohop ? std::getenv("ZEROHOP_CONFIG") : nullptr;
  std::string config = inherited != nullptr ? inherited : "";
  for (const auto& [name, value] : spec.settings) config = with_setting(config, name, value);
  if (!config.empty()) env["ZEROHOP_CONFIG"] = config;
  const auto start = Clock::now();
  const int status = run_grouped(command, environment_of(env, spec.zerohop), scratch, spec.timeout_s);
  r.wall_s = seconds_since(start);
  if (status != 0) {
    const std::string why = status == -1        ? fmt::format("ended after {:.0f} s", spec.timeout_s)
                            : WIFEXITED(status) ? fmt::format("exit code {}", WEXITSTATUS(status))
                                                : fmt::format("signal {}", WTERMSIG(status));
    r.problem = fmt::format("{}: {}", why, last_lines(file_text(said), 1500));
    return r;
  }
  r.document = nlohmann::json::parse(file_text(document), nullptr, false);
  if (r.document.is_discarded() || !r.document.is_object()) {
    r.problem = fmt::format("no readable result document: {}", last_lines(file_text(said), 1500));
    return r;
  }
  r.ok = true;
  return r;
}

std::optional<std::string> output_of(const std::vector<std::string>& command, double timeout_s) {
  const ScratchFolder scratch;
  if (run_grouped(command, environment_of({}, true), scratch, timeout_s) != 0) return std::nullopt;
  return file_text(scratch.file(kSaid));
}

std::vector<BenchHost> find_hosts(const std::string& hosts_py, std::string* problem) {
  std::vector<BenchHost> hosts;
  const auto text = output_of({"python3", hosts_py, "--json"}, 30);
  const auto table = nlohmann::json::parse(text.value_or(""), nullptr, false);
  if (!table.is_array()) {
    *problem = fmt::format("`python3 {} --json` gave no table of MPI hosts", hosts_py);
    return hosts;
  }
  for (const auto& h : table) {
    BenchHost host = h;
    if (!host.name.empty() && !host.mpiexec.empty()) hosts.push_back(std::move(host));
  }
  if (hosts.empty()) *problem = "no MPI host is installed (run dev/setup, or name one with --mpiexec)";
  return hosts;
}

std::string default_hosts_py() {
  std::error_code ignored;
  for (fs::path start : {fs::path(os::own_folder()), fs::current_path(ignored)}) {
    for (fs::path p = start; !p.empty(); p = p.parent_path()) {
      if (fs::exists(p / "dev" / "hosts.py", ignored)) return (p / "dev" / "hosts.py").string();
      if (p == p.root_path()) break;
    }
  }
  return {};
}

}  // namespace zh::tools
