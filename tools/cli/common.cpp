// What several subcommands need: the exit code, the library's place, files of results, the day, the launcher's hints.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>

#include "os/program.h"
#include "tools/cli/commands.h"

namespace zh::tools {
namespace {

int first_number(const char* const* names, int otherwise) {
  for (; *names != nullptr; ++names) {
    const char* value = std::getenv(*names);
    if (value != nullptr && *value >= '0' && *value <= '9') return std::atoi(value);
  }
  return otherwise;
}

}  // namespace

int exit_code = 0;

std::string find_library() {
  const std::string folder = os::own_folder();
  for (const char* place : {"/../lib/libzerohop.so", "/../lib64/libzerohop.so", "/libzerohop.so"}) {
    const std::string path = folder + place;
    if (!folder.empty() && os::readable(path)) {
      // "/a/bin/../lib/x" reads better as "/a/lib/x".
      if (place[1] == '.') return folder.substr(0, folder.rfind('/')) + (place + 3);
      return path;
    }
  }
  return "";
}

bool write_file(const std::string& path, const std::string& text, const std::string& command) {
  std::ofstream out(path);
  out << text;
  out.close();
  if (!out) std::fprintf(stderr, "zerohop %s: cannot write %s\n", command.c_str(), path.c_str());
  return !out.fail();
}

int refuse(const std::string& command, const std::string& why, int code) {
  std::fprintf(stderr, "zerohop %s: %s\n", command.c_str(), why.c_str());
  return code;
}

std::string today(const char* instead) {
  const std::time_t now = instead != nullptr ? std::atoll(instead) : std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  char text[sizeof "2026-01-31"];
  std::strftime(text, sizeof text, "%Y-%m-%d", &utc);
  return text;
}

int launched_rank() {
  const char* const names[] = {"PMIX_RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID", nullptr};
  return first_number(names, 0);
}

int launched_local_rank() {
  const char* const names[] = {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID",
                               "PALS_LOCAL_RANKID",          "SLURM_LOCALID",
                               "FLUX_TASK_LOCAL_ID",         nullptr};
  return first_number(names, launched_rank());
}

int launched_local_ranks() {
  const char* const names[] = {"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "SLURM_STEP_TASKS_PER_NODE", nullptr};
  return first_number(names, 0);
}

uint64_t patience_ns_of(const std::string& text) {
  constexpr size_t kMostDigits = 6;
  const size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  const std::string unit = text.substr(digits);
  if (digits == 0 || digits > kMostDigits) return 0;
  const uint64_t seconds = unit.empty() || unit == "s" ? 1 : unit == "m" ? 60 : unit == "h" ? 3600 : 0;
  return std::strtoull(text.c_str(), nullptr, 10) * seconds * 1'000'000'000;
}

}  // namespace zh::tools
