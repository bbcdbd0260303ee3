// Counts of collective calls for ZEROHOP_STATS: by function, way and number of members, with the bytes of each rank's
// part. Called by wrap_coll.cpp and wrap_coll_start.cpp behind each call that succeeded, if anybody wants them.
#pragma once

#include <string>

#include "mpi/coll/call_data.h"
#include "mpi/coll/call_neighbor.h"
#include "mpi/coll/call_reduce.h"
#include "p2p/counters.h"

namespace zh::mpi {

/// How a call was served; kFirstAlgorithm + i: as a schedule, by the i-th of coll::algorithms().
enum class CallWay : uint8_t { kHost, kTeam, kNothingToDo, kFirstAlgorithm };
inline CallWay way_of(const CollectiveOperation& operation) {
  if (!operation.does_anything()) return CallWay::kNothingToDo;
  if (operation.through_memory()) return CallWay::kTeam;
  return static_cast<CallWay>(static_cast<size_t>(CallWay::kFirstAlgorithm) + operation.algorithm());
}

/// Who calls: a rank of a communicator, or of one of two groups.
struct Caller {
  int rank;
  int members;  ///< of its own group
  bool between_groups;
};
/// `info`: the communicator's entry, or null.
Caller caller_of(MPI_Comm comm, const CommInfo* info);

uint64_t bytes_of(MPI_Count count, MPI_Datatype type);

/// One member's or neighbour's part of a group (call.h).
template <typename Group>
uint64_t part_of(const Group& x, [[maybe_unused]] int member) {
  if constexpr (requires { x.count; }) {
    return bytes_of(x.count, x.type);
  } else if constexpr (requires { x.types; }) {
    return bytes_of(x.counts[member], x.types[member]);
  } else {
    return bytes_of(x.counts[member], x.type);
  }
}
template <typename Group>
uint64_t parts_of(const Group& x, int members) {
  uint64_t sum = 0;
  for (int i = 0; i < members; ++i) sum += part_of(x, i);
  return sum;
}

// What the caller gives, or of a broadcast and a scatter also what it gets.
inline uint64_t payload(const calls::Barrier&, const Caller&) { return 0; }
template <typename N, template <typename> typename Group>
uint64_t payload(const calls::NeighborAlltoallOf<N, Group>& call, const Caller&) {
  uint64_t sum = 0;
  for (const int32_t block : neighborhood_of(call.comm).destinations.used) sum += part_of(call.send, block);
  return sum;
}
template <typename Call>
uint64_t payload(const Call& call, const Caller& me) {
  if constexpr (Call::kCollective == coll::Collective::kBcast) {
    return part_of(call.data, me.rank);
  } else if constexpr (Call::kCollective == coll::Collective::kReduceScatter) {
    return parts_of(call.operands, me.members);
  } else if constexpr (requires { call.operands; }) {
    return part_of(call.operands, me.rank);
  } else if constexpr (Call::kCollective == coll::Collective::kAlltoall) {
    return parts_of(call.send.buf == MPI_IN_PLACE ? call.recv : call.send, me.members);
  } else if constexpr (Call::kCollective == coll::Collective::kScatter) {
    return call.recv.buf == MPI_IN_PLACE ? part_of(call.send, me.rank) : part_of(call.recv, me.rank);
  } else {
    return call.send.buf == MPI_IN_PLACE ? part_of(call.recv, me.rank) : part_of(call.send, me.rank);
  }
}

void count_call(uint64_t key, uint64_t bytes, const CommInfo* info);
/// Tells of the first call of each key and size class.
void trace_call(uint64_t key, uint64_t bytes);

/// `Form` is the function that was called (call.h); calls between groups count without bytes.
template <typename Form, typename Call>
[[gnu::noinline]] void count_call(const Call& call, const CommInfo* info, CallWay way) {
  const Caller me = caller_of(call.comm, info);
  const uint64_t key = (static_cast<uint64_t>(Form::kId) + 1) << 48U | static_cast<uint64_t>(Call::kCollective) << 40U |
                       static_cast<uint64_t>(way) << 32U | static_cast<uint32_t>(me.members);
  const uint64_t bytes = me.between_groups ? 0 : payload(call, me);
  if (shim.counts_calls) count_call(key, bytes, info);
  if (shim.traces_calls) trace_call(key, bytes);
}

/// Who served the calls of a key.
std::string served_by(uint64_t key);
/// A rank's counts as a JSON array.
std::string calls_json(const p2p::CallCounts& counts);

}  // namespace zh::mpi
