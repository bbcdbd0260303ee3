// The file of the setting trace: the latest calls and messages of each rank (p2p/timeline.h) in the trace-event format
// of Chrome and Perfetto (docs/user/timeline.md). Written at the moments at which the statistics are.

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>

#include "engine/rank.h"
#include "mpi/coll/call_counts.h"
#include "mpi/entry/function_names.h"
#include "mpi/start/statistics.h"
#include "node/node.h"
#include "os/clock.h"
#include "os/own_file.h"
#include "os/process.h"
#include "p2p/timeline.h"

namespace zh::mpi {
namespace {

using p2p::Event;
using Kind = p2p::Event::Kind;

const std::string kHead =
    R"({"displayTimeUnit":"ns","traceEvents":[{"ph":"M","pid":0,"name":"zerohop","args":{"version":")" ZH_VERSION
    "\"}}";
const std::string kTail = "\n]}\n";

constexpr uint64_t kMostEvents = uint64_t{1} << 20;  // of a job, as long as each rank has
constexpr uint64_t kLeastEvents = 1024;
constexpr size_t kFlushBytes = size_t{64} << 10;

/// The events of ranks as text: calls are slices, messages points in them with an arrow from send to receive, and what
/// both ends move is told again as a span of time.
struct Writer {
  const engine::Rank& rank;
  std::FILE* file;
  uint64_t start_ticks;
  double ns_per_tick;
  int pid = 0;  ///< the rank of the world
  std::string text = {};

  void flush() {
    std::fwrite(text.data(), 1, text.size(), file);  // an error shows when the file is closed
    text.clear();
  }
  [[gnu::format(printf, 2, 3)]] void print(const char* format, ...) {
    char line[256];
    va_list values;
    va_start(values, format);
    std::vsnprintf(line, sizeof line, format, values);
    va_end(values);
    text += line;
  }
  [[nodiscard]] int64_t ns(uint64_t ticks) const {
    return std::llround(static_cast<double>(static_cast<int64_t>(ticks - start_ticks)) * ns_per_tick);
  }
  void begin(const char* phase, int thread, uint64_t ticks, const char* category, const std::string& name) {
    print(
        ",\n"
        R"({"ph":"%s","pid":%d,"tid":%d,"ts":%s,"cat":"%s","name":"%s")",
        phase, pid, thread, decimal(ns(ticks), 3).c_str(), category, name.c_str());
  }
  void arguments(const Event& e) {
    const std::string comm = rank.name_of_context(e.context);
    print(R"(,"args":{"bytes":%)" PRIu64 R"(,"comm":)", e.bytes);
    text += json_text(!comm.empty() || e.context == 0 ? comm : std::to_string(e.context));
  }
  void call(int thread, const Event& e, const Event& collective) {
    const bool is_collective = collective.end_ticks >= e.begin_ticks;
    begin("X", thread, e.begin_ticks, is_collective ? "collective" : "call",
          std::string("MPI_") + kFunctionNames[e.function - 1]);
    text += R"(,"dur":)" + decimal(ns(e.end_ticks) - ns(e.begin_ticks), 3);
    if (is_collective) arguments(collective);
    if (is_collective) print(R"(,"by":"%s"})", served_by(collective.key).c_str());
    text += '}';
  }
  void message(int thread, const Event& e) {
    const bool received = e.kind == Kind::kReceived;
    const bool by_host = e.kind == Kind::kSentByHost;
    const int peer = by_host ? e.peer : rank.node().world_rank(static_cast<uint32_t>(e.peer));
    const bool lasts = e.begin_ticks != 0;
    const uint64_t when = lasts && !received ? e.begin_ticks : e.end_ticks;
    const char* const way = by_host ? "host" : p2p::kPathNames[static_cast<size_t>(e.path)];
    const std::string name = std::string(received ? "receive " : "send ") + way;
    begin("X", thread, when, "message", name);
    text += R"(,"dur":0)";
    arguments(e);
    print(R"(,"tag":%d,"%s":%d,"way":"%s"}})", e.tag, received ? "from" : "to", peer, way);
    if (by_host) return;
    char id[32];  // both ends make the same
    std::snprintf(id, sizeof id, R"("0x%04x%04x%08x")", received ? peer : pid, received ? pid : peer,
                  static_cast<uint32_t>(e.key));
    begin(received ? "f" : "s", thread, when, "message", "message");
    print(R"(,"id":%s%s})", id, received ? R"(,"bp":"e")" : "");
    for (const char* end = lasts ? "be" : ""; *end != '\0'; ++end) {
      begin(std::string(1, *end).c_str(), thread, *end == 'b' ? e.begin_ticks : e.end_ticks, "transfer", name);
      print(R"(,"id2":{"local":%s}})", id);
    }
  }
  void add_rank(uint32_t index) {
    const Offset offset = rank.account(index).timeline_at();
    if (offset == kNoOffset) return;
    const auto* timeline = at<p2p::TimelineShm>(rank.node().base(), offset);
    const uint64_t most = std::max(kMostEvents / static_cast<uint64_t>(rank.node().world_size()), kLeastEvents);
    const uint64_t told = timeline->told();
    const uint64_t first = std::max(p2p::TimelineShm::first_of(told), told - std::min(told, most));
    pid = rank.node().world_rank(index);
    print(
        ",\n"
        R"({"ph":"M","pid":%d,"name":"process_name","args":{"name":"rank %d","events":%)" PRIu64 R"(,"lost":%)" PRIu64
        "}}",
        pid, pid, told - first, first);
    std::map<uint32_t, std::pair<int, Event>> threads;  // their numbers, and what their latest collective was
    for (uint64_t n = first; n < told; ++n) {
      Event e;
      if (!timeline->read(n, &e)) continue;  // of a job that goes on
      auto& [thread, collective] = threads.try_emplace(e.thread, threads.size(), Event{}).first->second;
      if (e.kind == Kind::kCollective) {
        collective = e;
      } else if (e.kind == Kind::kCall) {
        call(thread, e, collective);
      } else {
        message(thread, e);
      }
      if (text.size() > kFlushBytes) flush();
    }
    flush();
  }
};

/// Why nothing can be written there, or what would be lost; nullptr if it can.
const char* obstacle(const std::string& path, const std::string& statistics) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  const fs::file_status is = fs::status(path, ignored);
  if (path == statistics) return "the statistics are in that file";
  if (fs::exists(is) && !fs::is_regular_file(is)) return "no file";
  if (!os::may_overwrite(path, os::FileForm::kTimeline)) return kNotOurs;
  const std::string folder = fs::path(path).parent_path().string();
  return access(folder.c_str(), W_OK | X_OK) != 0 ? std::strerror(errno) : nullptr;
}

/// "" (after a line) if there can be no timeline; else where a link leads to.
std::string usable(const std::string& path, const std::string& statistics) {
  namespace fs = std::filesystem;
  const char* why = obstacle(path, statistics);
  if (why != nullptr) std::fprintf(stderr, "zerohop: no timeline: %s: %s\n", path.c_str(), why);
  if (why != nullptr) return "";
  std::error_code ignored;
  if (!fs::is_symlink(path, ignored)) return path;
  if (fs::exists(path, ignored)) return fs::canonical(path, ignored).string();
  return (fs::path(path).parent_path() / fs::read_symlink(path, ignored)).string();
}

void complain_of(const std::string& path, const std::string& draft, const char* why) {
  std::fprintf(stderr, "zerohop: cannot write the timeline: %s: %s\n", path.c_str(), why);
  std::remove(draft.c_str());  // a part of it would only take the room
}

/// Gives the file its name; not over what the program has written there meanwhile.
void put_in_place(const std::string& draft, const std::string& path) {
  if (!os::may_overwrite(path, os::FileForm::kTimeline)) {
    complain_of(path, draft, kNotOurs);
  } else if (std::rename(draft.c_str(), path.c_str()) != 0) {
    complain_of(path, draft, std::strerror(errno));
  }
}

}  // namespace

void Statistics::start_timeline(MPI_Comm world, const std::string& wanted) {
  const node::Node& node = rank_->node();
  const bool first = node.world_rank(node.self()) == 0;
  if (!wanted.empty()) trace_ = usable(wanted, path_);
  int words[] = {static_cast<int>(trace_.size()), static_cast<int>(os::process_id())};
  host.Bcast(words, 2, MPI_INT, 0, world);
  trace_.resize(static_cast<size_t>(words[0]));
  host.Bcast(trace_.data(), words[0], MPI_BYTE, 0, world);
  if (trace_.empty()) return;
  draft_ = trace_ + "." + std::to_string(words[1]) + ".part";
  if (first) std::remove(trace_.c_str());  // an older job's
  if (rank_->account().timeline_at() == kNoOffset) std::fprintf(stderr, "zerohop: no memory for a timeline\n");
  host.Barrier(world);
  start_ticks_ = os::ticks();
  start_ns_ = os::now_ns();
}

/// Of this node's ranks; behind what other nodes have written unless it `begins` the file.
bool Statistics::write_events(const std::string& name, bool begins, bool ends) const {
  std::FILE* const file = std::fopen(name.c_str(), begins ? "w" : "r+");
  if (file == nullptr) return false;
  bool good = std::fseek(file, 0, SEEK_END) == 0;
  if (begins) std::fwrite(kHead.data(), 1, kHead.size(), file);
  const auto ns = static_cast<double>(os::now_ns() - start_ns_);
  Writer writer{*rank_, file, start_ticks_, ns / static_cast<double>(os::ticks() - start_ticks_)};
  for (uint32_t i = 0; i < rank_->node().size(); ++i) writer.add_rank(i);
  if (ends) std::fwrite(kTail.data(), 1, kTail.size(), file);
  good = std::ferror(file) == 0 && good;
  return std::fclose(file) == 0 && good;
}

void Statistics::finish_timeline(MPI_Comm world) {
  if (trace_.empty()) return;
  const node::Node& node = rank_->node();
  const int self = node.world_rank(node.self());
  int good = 1;
  for (int n = 0; n < node.nodes(); ++n) {  // nobody tells anything any more, and the nodes before have written
    host.Allreduce(MPI_IN_PLACE, &good, 1, MPI_INT, MPI_MIN, world);
    if (good == 0 || node.self() != 0 || static_cast<int>(node.node_of(self)) != n) continue;
    good = write_events(draft_, n == 0, n + 1 == node.nodes()) ? 1 : 0;
    if (good == 0) complain_of(trace_, draft_, std::strerror(errno));
  }
  host.Allreduce(MPI_IN_PLACE, &good, 1, MPI_INT, MPI_MIN, world);
  if (self == 0 && good != 0) put_in_place(draft_, trace_);
}

void Statistics::write_timeline() {
  const std::string draft = trace_ + "." + std::to_string(os::thread_id()) + ".part";
  if (trace_.empty()) return;
  if (write_events(draft, true, true)) {
    put_in_place(draft, trace_);
  } else {
    complain_of(trace_, draft, std::strerror(errno));
  }
}

}  // namespace zh::mpi
