// See statistics.h. A thread of its own writes the file while the job runs: it takes no signals, calls no MPI and reads
// counters in shared memory only, so the numbers of a rank that was killed are in the file as well.
#include "mpi/start/statistics.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <utility>
#include <vector>

#include "engine/rank.h"
#include "mpi/coll/call_counts.h"
#include "node/node.h"
#include "os/clock.h"
#include "os/futex.h"
#include "os/own_file.h"
#include "os/process.h"
#include "os/thread.h"

namespace zh::mpi {

/// Length of the UTF-8 character that `text` starts with; 0 if it starts with none.
static size_t character(const char* text) {
  const auto byte = [text](size_t i) { return static_cast<unsigned char>(text[i]); };
  const size_t length = byte(0) < 0x80 ? 1 : byte(0) >= 0xf0 ? 4 : byte(0) >= 0xe0 ? 3 : 2;
  if (length > 1 && (byte(0) < 0xc2 || byte(0) > 0xf4)) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0U) != 0x80) return 0;
  }
  // Overlong forms, surrogates, and what is beyond the last character.
  if ((byte(0) == 0xe0 && byte(1) < 0xa0) || (byte(0) == 0xed && byte(1) > 0x9f)) return 0;
  if ((byte(0) == 0xf0 && byte(1) < 0x90) || (byte(0) == 0xf4 && byte(1) > 0x8f)) return 0;
  return length;
}

std::string json_text(const std::string& text) {
  std::string out = "\"";
  for (size_t i = 0; i < text.size();) {
    const auto c = static_cast<unsigned char>(text[i]);
    const size_t length = character(text.c_str() + i);
    if (length == 0) {
      out += "\\ufffd";
    } else if (c < 0x20) {
      char escaped[8];
      std::snprintf(escaped, sizeof escaped, "\\u%04x", c);
      out += escaped;
    } else {
      if (c == '"' || c == '\\') out += '\\';
      out.append(text, i, length);
    }
    i += std::max<size_t>(length, 1);
  }
  return out + '"';
}

std::string decimal(int64_t units, int digits) {
  std::string text = std::to_string(units < 0 ? -units : units);
  const auto most = static_cast<size_t>(digits) + 1;
  if (text.size() < most) text.insert(0, most - text.size(), '0');
  text.insert(text.size() - most + 1, ".");
  return units < 0 ? "-" + text : text;
}

namespace {

constexpr uint64_t kSecond = 1'000'000'000;
constexpr uint64_t kLookNs = kSecond / 10;  // from one look after dead ranks to the next
constexpr uint32_t kWatchers = 2;           // of a node's ranks, who look after the others
constexpr uint64_t kAbortWaitNs = 5 * kSecond;
constexpr size_t kStackBytes = size_t{256} << 10;
// Values of AccountShm::end.
constexpr uint64_t kFinalized = 1;
constexpr uint64_t kAborted = uint64_t{1} << 32;  // with the code in the lower half
constexpr uint64_t kTold = uint64_t{1} << 33;     // and that is in the file

std::string seconds_of(uint64_t ns) { return decimal(static_cast<int64_t>(ns / 1000), 6); }
std::string seconds(uint64_t ticks) {
  return decimal(static_cast<int64_t>(static_cast<double>(ticks) / os::ticks_per_us()), 6);
}

/// The time in functions and in waits, of a rank that has been counting for so long.
std::string times_json(const p2p::AccountShm& account, uint64_t ns) {
  constexpr const char* kWaits[p2p::AccountShm::kWaits] = {
      "", "in_host", "untold", "for_message", "for_receive", "for_members"};
  std::string calls;
  for (size_t i = 0; i < kFunctions; ++i) {
    const p2p::TimedCount& f = account.functions[i + 1];
    if (f.times == 0) continue;
    calls += std::string(calls.empty() ? "" : ",") + R"({"call":"MPI_)" + kFunctionNames[i] + R"(","calls":)" +
             std::to_string(f.times) + R"(,"seconds":)" + seconds(f.ticks) + "}";
  }
  std::string waited;
  std::string waits;
  for (size_t i = 1; i < p2p::AccountShm::kWaits; ++i) {
    const p2p::TimedCount& w = account.waits[i];
    waits += std::string(waits.empty() ? "" : ",") + '"' + kWaits[i] + R"(":{"times":)" + std::to_string(w.times) +
             R"(,"seconds":)" + seconds(w.ticks) + "}";
  }
  if (account.run_delay_ns != 0) waited = ",\"without_processor_s\":" + seconds_of(account.run_delay_ns);
  return std::string(R"({"wall_s":)") + seconds_of(ns) + waited + R"(,"calls":[)" + calls + R"(],"waits":{)" + waits +
         "}}";
}

std::string date_now() {
  const auto now = static_cast<std::time_t>(os::seconds_since_1970());
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

/// The words of this process's command line as a JSON array.
std::string command_line() {
  std::string words = "[";
  if (FILE* file = std::fopen("/proc/self/cmdline", "re"); file != nullptr) {
    std::string word;
    for (int c = std::fgetc(file); c != EOF; c = std::fgetc(file)) {
      if (c != 0) {
        word += static_cast<char>(c);
        continue;
      }
      words += (words.size() == 1 ? "" : ",") + json_text(word);
      word.clear();
    }
    std::fclose(file);
  }
  return words + "]";
}

/// What the host says that it is, in one line.
std::string host_version() {
  if (host.Get_library_version == nullptr) return "";
  std::vector<char> text(16384);  // MPI_MAX_LIBRARY_VERSION_STRING is 8192 at most
  int length = 0;
  if (host.Get_library_version(text.data(), &length) != MPI_SUCCESS) return "";
  std::string line;
  for (const char* c = text.data(); *c != '\0' && *c != '\n' && *c != '\r'; ++c) {
    const char sign = *c == '\t' ? ' ' : *c;
    if (sign != ' ' || (!line.empty() && line.back() != ' ')) line += sign;
  }
  return line;
}

/// Of the batch system; without one, a word that other jobs of this machine do not have at the same time.
std::string job_id() {
  for (const char* name : {"SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "FLUX_JOB_ID", "JOB_ID"}) {
    if (const char* value = std::getenv(name); value != nullptr && *value != '\0') return value;
  }
  return std::to_string(os::process_id());
}

/// Collective over `world`: rank 0's text.
std::string of_rank_0(std::string text, MPI_Comm world) {
  int bytes = static_cast<int>(text.size());
  host.Bcast(&bytes, sizeof bytes, MPI_BYTE, 0, world);
  text.resize(static_cast<size_t>(bytes));
  host.Bcast(text.data(), bytes, MPI_BYTE, 0, world);
  return text;
}

/// `name` with "%c" replaced; other signs stay. Sets `*found` where there was one.
std::string replaced(const std::string& name, char c, const std::string& by, bool* found) {
  std::string out;
  for (size_t i = 0; i < name.size(); ++i) {
    const bool mark = name[i] == '%' && i + 1 < name.size();
    if (mark && name[i + 1] == c) {
      out += by;
      *found = true;
      ++i;
    } else {
      out += name[i];
      if (mark) out += name[++i];  // "%%" hides the sign behind it
    }
  }
  return out;
}

bool is_stream(const std::string& path) {
  struct stat info {};
  return stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode);
}

/// The program may go to another folder.
std::string absolute(const std::string& path) {
  char folder[4096];
  return path[0] == '/' || getcwd(folder, sizeof folder) == nullptr ? path : std::string(folder) + "/" + path;
}

/// errno, or 0. A pipe that nobody reads is an error (ENXIO), and is not waited for.
int write_all(const std::string& path, const std::string& text) {
  constexpr mode_t kMode = 0666;
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NONBLOCK, kMode);
  if (fd < 0) return errno;
  fcntl(fd, F_SETFL, O_WRONLY);
  FILE* file = fdopen(fd, "w");
  if (file == nullptr) {
    const int error = errno;
    close(fd);
    return error;
  }
  const bool written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  const int error = written ? 0 : errno;
  return std::fclose(file) == 0 ? error : errno;
}

}  // namespace

std::string Statistics::path_of(int world_rank, pid_t pid, bool* each_its_own) const {
  std::string path = replaced(name_, 'r', std::to_string(world_rank), each_its_own);
  path = replaced(path, 'p', std::to_string(pid), each_its_own);
  bool hidden = false;
  return replaced(path, '%', "%", &hidden);
}

bool Statistics::start(engine::Rank& rank, MPI_Comm world, const std::string& name, const std::string& trace) {
  int world_rank = 0;
  int world_size = 0;
  host.Comm_rank(world, &world_rank);
  host.Comm_size(world, &world_size);
  const std::string id = of_rank_0(world_rank == 0 ? job_id() : "", world);
  bool with_job = false;
  const std::string agreed = of_rank_0(world_rank == 0 ? replaced(name, 'j', id, &with_job) : "", world);
  name_ = absolute(agreed);
  path_ = path_of(world_rank, os::process_id(), &each_its_own_);
  in_place_ = is_stream(path_);

  rank_ = &rank;
  started_ns_ = os::now_ns();
  delayed_ns_ = os::thread_run_delay_ns();
  timed_ = shim.times_calls;
  head_ = std::string("{\"schema\": 1, \"version\": \"" ZH_VERSION "\", \"host\": \"") + ZH_ABI_NAME +
          "\",\n\"host_version\": " + json_text(host_version()) + ",\n\"started\": \"" + date_now() +
          "\", \"job\": " + json_text(id) + ", \"world_size\": " + std::to_string(world_size) +
          ",\n\"command\": " + command_line();
  int error = 0;
  if (each_its_own_ || world_rank == 0) {
    if (in_place_) {
      error = access(path_.c_str(), W_OK) == 0 ? 0 : errno;
    } else {
      error = each_its_own_ ? write(path_, so_far(rank.node().self(), 1)) : write(path_, so_far(0, rank.node().size()));
    }
  }
  int errors[] = {error, world_rank == 0 ? error : 0, error != 0 ? world_rank : 0};  // of any rank, of rank 0; whose
  host.Allreduce(MPI_IN_PLACE, errors, 3, MPI_INT, MPI_MAX, world);
  if (errors[0] != 0 && world_rank == 0)
    complain(errors[0], each_its_own_ ? name_ + " of rank " + std::to_string(errors[2]) : path_);
  if ((each_its_own_ ? error : errors[1]) != 0) {
    rank_ = nullptr;
    return false;
  }
  if (errors[0] == 0) start_timeline(world, world_rank == 0 && !trace.empty() ? absolute(trace) : "");
  // Where all have one file, the first rank writes it while it lives, then the second.
  const node::Node& node = rank.node();
  const bool may_write = each_its_own_ || (node.node_of(0) == node.node_of(world_rank) && node.self() < kWatchers);
  if (may_write && !in_place_) start_watch();
  return true;
}

void Statistics::complain(int error, const std::string& file) {
  const char* const why = error == EEXIST ? kNotOurs : std::strerror(error);
  std::fprintf(stderr, "zerohop: cannot write the statistics: %s: %s\n", file.c_str(), why);
}

/// Ranks of this node that have ended before MPI_Finalize.
uint32_t Statistics::dead() const {
  uint32_t n = 0;
  node::Node& node = rank_->node();
  for (uint32_t i = 0; i < node.size(); ++i) {
    n += i != node.self() && rank_->account(i).end == 0 && node.ended(i) ? 1 : 0;
  }
  return n;
}

/// Whether this is the first rank of its node that lives.
bool Statistics::writes_now() const {
  const node::Node& node = rank_->node();
  for (uint32_t i = 0; i < node.self(); ++i) {
    if (!node.ended(i)) return false;
  }
  return true;
}

/// The file, or where each rank has one its own and those of the dead, or `all`.
void Statistics::write_so_far(bool all) {
  const node::Node& node = rank_->node();
  if (!each_its_own_) {
    static_cast<void>(write(path_, so_far(0, node.size())));
    return;
  }
  for (uint32_t i = 0; i < node.size(); ++i) {
    const bool self = i == node.self();
    if (!self && !all && (rank_->account(i).end != 0 || !node.ended(i))) continue;
    bool ignored = false;
    const std::string path = self ? path_ : path_of(node.world_rank(i), node.pid(i), &ignored);
    static_cast<void>(write(path, so_far(i, 1)));
  }
}

/// A rank's object with what the shim has counted there.
std::string Statistics::with_calls(std::string object, const p2p::AccountShm& account) const {
  object.pop_back();
  object += ",\"calls\":" + calls_json(account.calls);
  if (timed_) object += ",\"time\":" + times_json(account, os::now_ns() - started_ns_);
  return object + "}";
}

/// Without a lock: what `n` ranks of this node have told.
std::string Statistics::so_far(uint32_t first, uint32_t n) const {
  const node::Node& node = rank_->node();
  std::string end = "\"running\"";
  std::string lost;
  std::string ranks;
  for (uint32_t i = 0; i < node.size(); ++i) {
    const p2p::AccountShm& account = rank_->account(i);
    const uint64_t how = account.end;
    if (how >= kAborted) {
      end = R"("MPI_Abort", "abort_rank": )" + std::to_string(node.world_rank(i)) +
            ", \"abort_code\": " + std::to_string(static_cast<int32_t>(how));
    } else if (how == 0 && i != node.self() && node.ended(i)) {
      lost += (lost.empty() ? "" : ",") + std::to_string(node.world_rank(i));
    }
    if (i < first || i >= first + n) continue;
    ranks += (ranks.empty() ? "\n" : ",\n") + with_calls(rank_->told_json(i), account);
  }
  if (!lost.empty() && end == "\"running\"") end = "\"a rank died\"";
  if (!lost.empty()) end += ", \"dead_ranks\": [" + lost + "]";
  return document(end, ranks);
}

std::string Statistics::document(const std::string& end, const std::string& ranks) const {
  return head_ + ",\n\"written\": \"" + date_now() + "\", \"end\": " + end + ", \"ranks\": [" + ranks + "\n]}\n";
}

/// Whoever reads the file meanwhile sees the old document or the new one; errno, or 0. EEXIST: there is a file of the
/// user's, which stays.
int Statistics::write(const std::string& name, const std::string& text) {
  if (!in_place_ && !os::may_overwrite(name, os::FileForm::kStatistics)) return EEXIST;
  std::error_code ignored;  // a link stays one: what it leads to is written, if that is there
  const bool is_link = std::filesystem::is_symlink(name, ignored);
  const std::string path = is_link ? std::filesystem::canonical(name, ignored).string() : name;
  if (in_place_ || path.empty()) return write_all(name, text);
  const std::string draft = path + "." + std::to_string(os::thread_id()) + ".part";
  int error = write_all(draft, text);
  if (error == 0 && std::rename(draft.c_str(), path.c_str()) != 0) error = errno;
  if (error == 0) return 0;
  std::remove(draft.c_str());
  const bool is_full = error == ENOSPC || error == EDQUOT || error == EFBIG || error == EIO;
  return is_full ? error : write_all(path, text);  // the folder may take no new files
}

void Statistics::start_watch() {
  const auto body = [](void* self) -> void* {
    static_cast<Statistics*>(self)->watch();
    return nullptr;
  };
  ending_.store_relaxed(0);
  called_.store_relaxed(0);
  has_watcher_ = os::start_thread(&watcher_, kStackBytes, body, this);
}

void Statistics::end_watch() {
  if (!has_watcher_) return;
  ending_.store_relaxed(1);
  called_.store_relaxed(1);
  os::futex_wake(called_, 1);
  pthread_join(watcher_, nullptr);
  has_watcher_ = false;
}

/// Whether a rank has called MPI_Abort of which this one has to tell and nobody has.
bool Statistics::aborted() const {
  const node::Node& node = rank_->node();
  for (uint32_t i = 0; i < node.size(); ++i) {
    const uint64_t how = rank_->account(i).end;
    if (how >= kAborted && how < kTold && (!each_its_own_ || i == node.self())) return true;
  }
  return false;
}

void Statistics::told_of_aborts() {
  for (uint32_t i = 0; i < rank_->node().size(); ++i) {
    Count& end = rank_->account(i).end;
    if (end >= kAborted && end < kTold) end += kTold;
  }
}

void Statistics::watch() {
  uint64_t last_ns = started_ns_;
  uint32_t dead_before = 0;
  for (;;) {
    os::futex_wait(called_, 0, kLookNs);
    called_.store_relaxed(0);
    if (ending_.load_relaxed() != 0) return;
    const uint64_t now_ns = os::now_ns();
    const bool looks = rank_->node().self() < kWatchers;
    const uint32_t dead_now = looks ? dead() : 0;
    const bool abort = aborted();
    // The longer the job runs, the less often: at most a twentieth of its time is missing.
    const bool due = now_ns - last_ns > kSecond + (now_ns - started_ns_) / 20;
    if (!due && !abort && dead_now == dead_before) continue;
    if (!each_its_own_ && !writes_now()) continue;
    write_so_far(abort);
    if (abort || dead_now != dead_before) write_timeline();
    if (abort) told_of_aborts();
    last_ns = now_ns;
    dead_before = dead_now;
  }
}

// The program may be in a signal handler, in the middle of malloc: the watcher writes, here or in another process.
void Statistics::abort(int code) {
  if (rank_ == nullptr) return;
  Count& end = rank_->account().end;
  end.set(kAborted | static_cast<uint32_t>(code));
  if (in_place_) {
    if (each_its_own_ || rank_->node().world_rank(rank_->node().self()) == 0) write_so_far(false);
    return;
  }
  const node::Node& node = rank_->node();
  if (!each_its_own_ && node.node_of(0) != node.node_of(node.world_rank(node.self()))) return;
  called_.store_relaxed(1);
  os::futex_wake(called_, 1);
  for (const uint64_t from = os::now_ns(); end < kTold && os::now_ns() - from < kAbortWaitNs;) {
    constexpr timespec kMoment{0, 1'000'000};
    nanosleep(&kMoment, nullptr);
  }
}

void Statistics::finish(MPI_Comm world) {
  if (rank_ == nullptr) return;
  end_watch();
  const bool somebody_died = dead() != 0;
  if (!somebody_died) {
    rank_->account().end.set(kFinalized);
    rank_->account().run_delay_ns.set(os::thread_run_delay_ns() - delayed_ns_);
  }
  const std::string mine = with_calls(rank_->stats_json(), rank_->account());
  int error = 0;
  if (each_its_own_) {
    error = write(path_, document("\"MPI_Finalize\"", "\n" + mine));
  } else if (somebody_died) {
    if (writes_now()) write_so_far(false);  // a gather would wait for the dead
  } else {
    int world_rank = 0;
    int world_size = 0;
    host.Comm_rank(world, &world_rank);
    host.Comm_size(world, &world_size);
    const int bytes = static_cast<int>(mine.size());
    std::vector<int> lengths(static_cast<size_t>(world_size));
    std::vector<int> places(lengths.size());
    constexpr int kInt = sizeof(int);
    host.Gather(&bytes, kInt, MPI_BYTE, lengths.data(), kInt, MPI_BYTE, 0, world);
    for (size_t i = 1; i < lengths.size(); ++i) places[i] = places[i - 1] + lengths[i - 1];
    std::string all(world_rank == 0 ? static_cast<size_t>(places.back() + lengths.back()) : 0, ' ');
    host.Gatherv(mine.data(), bytes, MPI_BYTE, all.data(), lengths.data(), places.data(), MPI_BYTE, 0, world);
    if (world_rank == 0) {
      std::string ranks;
      for (size_t i = 0; i < lengths.size(); ++i) {
        ranks += i == 0 ? "\n" : ",\n";
        ranks.append(all, static_cast<size_t>(places[i]), static_cast<size_t>(lengths[i]));
      }
      error = write(path_, document("\"MPI_Finalize\"", ranks));
    }
  }
  if (error != 0) complain(error, path_);
  if (!somebody_died) {
    finish_timeline(world);
  } else if (writes_now()) {
    write_timeline();
  }
  rank_ = nullptr;
}

}  // namespace zh::mpi
