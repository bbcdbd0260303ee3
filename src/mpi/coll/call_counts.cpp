// See call_counts.h.
#include "mpi/coll/call_counts.h"

#include <cinttypes>
#include <mutex>
#include <set>
#include <utility>

#include "coll/algorithms/algorithms.h"
#include "p2p/timeline.h"

namespace zh::mpi {
namespace {

std::string name_of(CallWay way, coll::Collective collective) {
  switch (way) {
    case CallWay::kHost:
      return std::string(coll::kHostAlgorithm);
    case CallWay::kTeam:
      return "team";
    case CallWay::kNothingToDo:
      return "nothing to do";
    default: {
      const size_t place = static_cast<size_t>(way) - static_cast<size_t>(CallWay::kFirstAlgorithm);
      return std::string(coll::algorithms(collective)[place].name);
    }
  }
}

/// What count_call() puts into a key.
struct CallKey {
  const char* name;
  coll::Collective collective;
  CallWay way;
  uint32_t ranks;
};
CallKey parse(uint64_t key) {
  return {kCallNames[static_cast<size_t>(key >> 48U) - 1], static_cast<coll::Collective>(key >> 40U & 0xffU),
          static_cast<CallWay>(key >> 32U & 0xffU), static_cast<uint32_t>(key)};
}

/// What tells one row from another.
std::string described(uint64_t key) {
  if (key == p2p::CallCounts::kOther) return R"("call":"other","ranks":0,"by":"other")";
  const CallKey k = parse(key);
  return std::string(R"("call":"MPI_)") + k.name + R"(","ranks":)" + std::to_string(k.ranks) + R"(,"by":")" +
         name_of(k.way, k.collective) + '"';
}

}  // namespace

Caller caller_of(MPI_Comm comm, const CommInfo* info) {
  if (info != nullptr) return {info->rank, info->size, false};
  Caller me{};
  int between = 0;
  host.Comm_rank(comm, &me.rank);
  host.Comm_size(comm, &me.members);
  host.Comm_test_inter(comm, &between);
  me.between_groups = between != 0;
  return me;
}

uint64_t bytes_of(MPI_Count count, MPI_Datatype type) {
  MPI_Count size = 0;
  if (const TypeInfo* info = types.find(key_of(type)); info != nullptr) {
    size = static_cast<MPI_Count>(info->size);
  } else if (host.Type_size_x(type, &size) != MPI_SUCCESS) {
    return 0;
  }
  return static_cast<uint64_t>(count) * static_cast<uint64_t>(size);
}

void count_call(uint64_t key, uint64_t bytes, const CommInfo* info) {
  const uint64_t of = info != nullptr ? info->context : 0;
  shim.rank->count_call(key, bytes);
  shim.rank->tell({.context = of, .bytes = bytes, .key = key, .kind = p2p::Event::Kind::kCollective});
}

void trace_call(uint64_t key, uint64_t bytes) {
  static std::mutex mutex;
  static std::set<std::pair<uint64_t, uint32_t>> told;
  const TableLock lock(mutex);
  if (!told.emplace(key, p2p::size_class(bytes)).second) return;
  const CallKey k = parse(key);
  shim.rank->log().print(LogLevel::kDebug, "MPI_%s of %" PRIu64 " bytes on %u ranks: %s; the first of this size",
                         k.name, bytes, k.ranks, name_of(k.way, k.collective).c_str());
}

std::string served_by(uint64_t key) { return name_of(parse(key).way, parse(key).collective); }

std::string calls_json(const p2p::CallCounts& counts) {
  std::string text = "[";
  for (const p2p::CallCounts::Row& row : counts.rows) {
    if (row.key == 0) continue;
    text += text.size() == 1 ? "{" : ",{";
    text += described(row.key) + ",\"calls\":" + std::to_string(row.calls) + ",\"bytes\":" + std::to_string(row.bytes);
    text += "}";
  }
  return text + "]";
}

}  // namespace zh::mpi
