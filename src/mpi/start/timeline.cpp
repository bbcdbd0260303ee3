// The file of the setting trace: the latest calls and messages of each rank (p2p/timeline.h) in the trace-event format
// of Chrome and Perfetto (docs/user/timeline.md). Written at the moments at which the statistics are.

#include <cinttypes>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <map>
#include <vector>

#include "engine/rank.h"
#include "mpi/coll/call_counts.h"
#include "mpi/entry/function_names.h"
#include "mpi/start/statistics.h"
#include "node/node.h"
#include "os/clock.h"
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

/// The events of ranks as text: calls are slices, messages points in them with an arrow from send to receive, and what
/// both ends move is told again as a span of time.
struct Writer {
  const engine::Rank& rank;
  uint64_t start_ticks;
  double ns_per_tick;
  int pid = 0;  ///< the rank of the world
  std::string text = {};

  [[gnu::format(printf, 2, 3)]] void print(const char* format, ...) {
    char line[256];
    va_list values;
    va_start(values, format);
    std::vsnprintf(line, sizeof line, format, values);
    va_end(values);
    text += line;
  }
  /// In microseconds, of whole nanoseconds.
  [[nodiscard]] double us(uint64_t ticks) const {
    return std::round(static_cast<double>(static_cast<int64_t>(ticks - start_ticks)) * ns_per_tick) / 1000;
  }
  void begin(const char* phase, int thread, uint64_t ticks, const char* category, const std::string& name) {
    text += ",\n";
    print(R"({"ph":"%s","pid":%d,"tid":%d,"ts":%.3f,"cat":"%s","name":"%s")", phase, pid, thread, us(ticks), category,
          name.c_str());
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
    print(R"(,"dur":%.3f)", us(e.end_ticks) - us(e.begin_ticks));
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
    uint64_t lost = 0;
    const std::vector<Event> events = at<p2p::TimelineShm>(rank.node().base(), offset)->latest(&lost);
    pid = rank.node().world_rank(index);
    text += ",\n";
    print(R"({"ph":"M","pid":%d,"name":"process_name","args":{"name":"rank %d","events":%zu,"lost":%)" PRIu64 "}}", pid,
          pid, events.size(), lost);
    std::map<uint32_t, std::pair<int, Event>> threads;  // their numbers, and what their latest collective was
    for (const Event& e : events) {
      auto& [thread, collective] = threads.try_emplace(e.thread, threads.size(), Event{}).first->second;
      if (e.kind == Kind::kCollective) {
        collective = e;
      } else if (e.kind == Kind::kCall) {
        call(thread, e, collective);
      } else {
        message(thread, e);
      }
    }
  }
};

/// `mode` "r+": to what another rank has written. Tells what is wrong.
bool append(const std::string& path, const char* mode, const std::string& text) {
  std::FILE* const file = std::fopen(path.c_str(), mode);
  bool good = file != nullptr && std::fseek(file, 0, SEEK_END) == 0;
  good = good && std::fwrite(text.data(), 1, text.size(), file) == text.size();
  good = (file == nullptr || std::fclose(file) == 0) && good;
  if (!good) std::fprintf(stderr, "zerohop: cannot write the timeline: %s: %m\n", path.c_str());
  return good;
}

}  // namespace

void Statistics::start_timeline(MPI_Comm world, const std::string& path) {
  trace_ = path;
  int bytes = static_cast<int>(path.size());
  host.Bcast(&bytes, 1, MPI_INT, 0, world);
  trace_.resize(static_cast<size_t>(bytes));
  host.Bcast(trace_.data(), bytes, MPI_BYTE, 0, world);
  if (trace_.empty()) return;
  if (rank_->node().world_rank(rank_->node().self()) == 0 && append(trace_ + ".part", "w", "")) {
    std::remove((trace_ + ".part").c_str());
    std::remove(trace_.c_str());  // an older job's
  }
  if (rank_->account().timeline_at() == kNoOffset) std::fprintf(stderr, "zerohop: no memory for a timeline\n");
  host.Barrier(world);
  start_ticks_ = os::ticks();
  start_ns_ = os::now_ns();
}

std::string Statistics::events_of_node() const {
  const auto ns = static_cast<double>(os::now_ns() - start_ns_);
  Writer writer{*rank_, start_ticks_, ns / static_cast<double>(os::ticks() - start_ticks_)};
  for (uint32_t i = 0; i < rank_->node().size(); ++i) writer.add_rank(i);
  return writer.text;
}

void Statistics::finish_timeline(MPI_Comm world) {
  if (trace_.empty()) return;
  const node::Node& node = rank_->node();
  const int self = node.world_rank(node.self());
  const std::string draft = trace_ + ".part";
  for (int n = 0; n < node.nodes(); ++n) {
    host.Barrier(world);  // nobody tells anything any more, and the nodes before have written
    if (node.self() != 0 || static_cast<int>(node.node_of(self)) != n) continue;
    append(draft, n == 0 ? "w" : "r+", (n == 0 ? kHead : "") + events_of_node());
  }
  host.Barrier(world);
  if (self == 0 && append(draft, "r+", kTail)) std::rename(draft.c_str(), trace_.c_str());
}

void Statistics::write_timeline() {
  const std::string draft = trace_ + "." + std::to_string(os::thread_id()) + ".part";
  if (!trace_.empty() && append(draft, "w", kHead + events_of_node() + kTail))
    std::rename(draft.c_str(), trace_.c_str());
}

}  // namespace zh::mpi
