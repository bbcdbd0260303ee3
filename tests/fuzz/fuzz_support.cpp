// See fuzz_support.h.
#include "fuzz_support.h"

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "os/clock.h"
#include "os/process.h"

namespace zh::test {

uint64_t fuzz_seed() {
  const char* given = std::getenv("ZH_TEST_SEED");
  const uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 10) : os::random_token() % 1'000'000'000;
  std::printf("seed %llu (repeat with ZH_TEST_SEED)\n", static_cast<unsigned long long>(seed));
  std::fflush(stdout);
  return seed;
}

FuzzClock::FuzzClock() {
  const char* given = std::getenv("ZH_FUZZ_SECONDS");
  const uint64_t seconds = given != nullptr ? std::strtoull(given, nullptr, 10) : 2;
  end_ns_ = os::now_ns() + seconds * 1'000'000'000;
}

bool FuzzClock::over() const { return os::now_ns() >= end_ns_; }

std::string in_child(const std::function<std::string()>& body, int timeout_s) {
  int ends[2];
  if (pipe(ends) != 0) return "no pipe";
  std::fflush(nullptr);
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child < 0) return "no child";
  if (child == 0) {
    os::die_with_parent(parent);
    close(ends[0]);
    const std::string said = body();
    const bool told = write(ends[1], said.data(), said.size()) == static_cast<ssize_t>(said.size());
    std::fflush(nullptr);
    _exit(said.empty() && told ? 0 : 1);
  }
  close(ends[1]);
  std::string said;
  bool timely = true;
  const uint64_t deadline = os::now_ns() + static_cast<uint64_t>(timeout_s) * 1'000'000'000;
  for (;;) {
    const uint64_t now = os::now_ns();
    pollfd item{ends[0], POLLIN, 0};
    timely = now < deadline;
    if (!timely || poll(&item, 1, static_cast<int>((deadline - now) / 1'000'000 + 1)) < 0) break;
    if (item.revents == 0) continue;
    char part[4096];
    const ssize_t n = read(ends[0], part, sizeof part);
    if (n <= 0) break;
    said.append(part, static_cast<size_t>(n));
  }
  close(ends[0]);
  if (!timely) kill(child, SIGKILL);
  int status = 0;
  waitpid(child, &status, 0);
  if (!timely) return "no end after " + std::to_string(timeout_s) + " s";
  if (!said.empty()) return said;
  if (WIFSIGNALED(status)) return "ended by signal " + std::to_string(WTERMSIG(status));
  return WEXITSTATUS(status) == 0 ? "" : "ended with exit code " + std::to_string(WEXITSTATUS(status));
}

std::string mutated(std::string text, std::mt19937_64& rng, const std::vector<std::string>& words) {
  for (uint64_t edits = 1 + rng() % 4; edits != 0; --edits) {
    const size_t at = rng() % (text.size() + 1);
    const size_t length = std::min<size_t>(text.size() - at, 1 + rng() % (rng() % 4 == 0 ? 200 : 8));
    switch (rng() % 7) {
      case 0:
        text.insert(at, 1, static_cast<char>(rng()));
        break;
      case 1:
        if (at < text.size()) text[at] = static_cast<char>(rng() % 4 == 0 ? text[at] ^ (1 << rng() % 8) : rng());
        break;
      case 2:
        text.erase(at, length);
        break;
      case 3:
        text.insert(rng() % (text.size() + 1), text.substr(at, length));
        break;
      case 4:
      case 5:
        if (!words.empty()) text.replace(at, rng() % 2 == 0 ? 0 : length, words[rng() % words.size()]);
        break;
      default:
        if (rng() % 4 == 0) text.resize(at);
    }
  }
  return text;
}

std::vector<std::filesystem::path> corpus(const std::string& folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(std::filesystem::path(ZH_FUZZ_CORPUS) / folder)) {
    files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::string whole_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace zh::test
