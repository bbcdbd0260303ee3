// A point-to-point call as a value, as coll/call.h is for collectives: its arguments, how they are handed to the host,
// and the one place that judges them. Blocking, nonblocking and persistent calls, exchanges, buffered sends and matched
// receives all go on with the MessageCall that judge() makes. Refuses to know requests and how an operation runs.
#pragma once

#include "mpi/handles/comm.h"
#include "mpi/handles/datatype.h"
#include "mpi/p2p/bsend.h"
#include "mpi/step.h"

namespace zh::mpi {

/// What a call does with its message.
enum class Mode : uint8_t { kStandard, kSynchronous, kReady, kBuffered, kReceive };
/// How it does so.
enum class Form : uint8_t { kBlocking, kNonblocking, kPersistent };

/// What the program gives, with a count of either type.
template <typename N>
struct Arguments {
  Arguments(const void* b, N n, MPI_Datatype t, int r, int g, MPI_Comm c)
      : buf(const_cast<void*>(b)), count(n), datatype(t), rank(r), tag(g), comm(c) {}
  void* buf;
  N count;
  MPI_Datatype datatype;
  int rank;  ///< destination or source
  int tag;
  MPI_Comm comm;

  [[nodiscard]] Arguments<MPI_Count> wide() const { return {buf, count, datatype, rank, tag, comm}; }
  /// Calls a function of the host with them and with what its form ends with.
  template <typename Function, typename... End>
  int hand_to(Function function, End... end) const {
    return function(buf, count, datatype, rank, tag, comm, end...);
  }
};

/// For the statistics: a message that the host carries, to another node or on a communicator of its own.
void count_sent_by_host(MPI_Comm comm, int dest, MPI_Count count, MPI_Datatype type);

// The host's sends of each form, by mode, with those arguments.
#define ZH_BY_MODE(name, standard, synchronous, ready, buffered)                         \
  template <typename N, typename... End>                                                 \
  [[gnu::always_inline]] inline int name(Mode mode, const Arguments<N>& a, End... end) { \
    if (shim.counts_calls) [[unlikely]]                                                  \
      count_sent_by_host(a.comm, a.rank, static_cast<MPI_Count>(a.count), a.datatype);   \
    switch (mode) {                                                                      \
      case Mode::kSynchronous:                                                           \
        return a.hand_to(counted::synchronous, end...);                                  \
      case Mode::kReady:                                                                 \
        return a.hand_to(counted::ready, end...);                                        \
      case Mode::kBuffered:                                                              \
        return a.hand_to(counted::buffered, end...);                                     \
      default:                                                                           \
        return a.hand_to(counted::standard, end...);                                     \
    }                                                                                    \
  }
ZH_BY_MODE(host_send, Send, Ssend, Rsend, Bsend)
ZH_BY_MODE(host_isend, Isend, Issend, Irsend, Ibsend)
ZH_BY_MODE(host_send_init, Send_init, Ssend_init, Rsend_init, Bsend_init)
#undef ZH_BY_MODE

/// A call that zerohop serves, in the host's numbers.
struct MessageCall {
  Mode mode = Mode::kStandard;
  CommInfo* info = nullptr;  ///< null: a buffered send on a communicator of the host, or a matched receive
  MPI_Comm comm{};
  Elements data;
  MPI_Datatype datatype{};
  int rank = 0;  ///< destination or source
  int tag = 0;
  [[nodiscard]] Arguments<MPI_Count> arguments() const { return {data.buf, data.count, datatype, rank, tag, comm}; }
};

/// Tags that a send may have; a receive may also have MPI_ANY_TAG.
inline bool is_send_tag(int tag) { return static_cast<uint32_t>(tag) <= static_cast<uint32_t>(shim.tag_ub); }
inline bool is_recv_tag(int tag) { return is_send_tag(tag) || tag == MPI_ANY_TAG; }

/// Whether a message of a taken communicator may go to (or be asked for from) that rank with that tag.
inline bool is_destination(const CommInfo* info, int rank, int tag) { return is_rank(info, rank) && is_send_tag(tag); }
inline bool is_source(const CommInfo* info, int rank, int tag) {
  return (rank == MPI_ANY_SOURCE || is_rank(info, rank)) && is_recv_tag(tag);
}
/// Whether messages from there can come through the engine alone.
inline bool comes_by_engine(const CommInfo* info, int source) {
  return info->all_local || (source != MPI_ANY_SOURCE && info->local[source] >= 0);
}

/// Whether zerohop serves a call with that communicator (`info`: its entry, or null), rank, tag and count. If not, the
/// host does, and raises what is wrong.
template <typename N>
[[gnu::always_inline]] inline bool serves(Mode mode, Form form, const CommInfo* info, const Arguments<N>& a) {
  if (info == nullptr || a.count < 0) [[unlikely]] {
    return mode == Mode::kBuffered && a.count >= 0 && a.rank != MPI_PROC_NULL &&
           (form == Form::kPersistent || bsend_ready(a.comm));
  }
  if (mode == Mode::kReceive) return is_source(info, a.rank, a.tag);
  if (!is_destination(info, a.rank, a.tag)) return false;
  // Where a request stands for a send to another node, it is the host's as well.
  return form == Form::kBlocking || mode == Mode::kBuffered || info->local[a.rank] >= 0;
}

/// The second half of judging, after serves(): what is to be sent or received. Returns a step. A peer that is nobody
/// (of one half of an exchange) needs no buffer.
template <typename N>
[[gnu::always_inline]] inline int judge_data(Mode mode, CommInfo* info, const Arguments<N>& a, MessageCall* out) {
  TypeInfo* type = nullptr;
  if (const int error = find_type(a.datatype, a.count, a.comm, &type); type == nullptr) [[unlikely]]
    return error;
  const Elements data{static_cast<std::byte*>(a.buf), a.count, type};
  if (lacks_buffer(data) && a.rank != MPI_PROC_NULL) [[unlikely]]
    return kToHost;
  *out = {mode, info, a.comm, data, a.datatype, a.rank, a.tag};
  return kGoOn;
}

/// What most calls ask for, of whom no more need be asked: contiguous data, on the communicator and of the datatype
/// that were looked up last. Neither calls anybody nor needs memory, so that a wrapper that begins with it is short.
struct PlainCall {
  const CommInfo* info;
  const TypeInfo* type;
};
template <typename N>
[[gnu::always_inline]] inline bool is_plain(const Arguments<N>& a, PlainCall* out) {
  if (a.buf == nullptr) [[unlikely]]
    return false;
  out->info = comms.latest(key_of(a.comm));
  if (out->info == nullptr || out->info->lone) [[unlikely]]
    return false;
  out->type = types.latest(key_of(a.datatype));
  if (out->type == nullptr || out->type->kind != TypeInfo::Kind::kContiguous) [[unlikely]]
    return false;
  return a.count >= 0;
}
/// Where the message of one comes from; false if that may be another node.
[[gnu::always_inline]] inline bool has_plain_source(const CommInfo* info, int rank, p2p::RecvArgs* out) {
  if (is_rank(info, rank)) [[likely]] {
    out->peer = info->local[rank];
    out->source = rank;
    return out->peer >= 0;
  }
  out->peer = p2p::kAnyPeer;
  out->source = p2p::kAnySource;
  return rank == MPI_ANY_SOURCE && info->all_local;
}

/// Makes the MessageCall. Returns a step. Mode and form are constants in most callers, where little of this is left.
template <typename N>
[[gnu::always_inline]] inline int judge(Mode mode, Form form, const Arguments<N>& a, MessageCall* out) {
  CommInfo* info = taken(a.comm);
  if (!serves(mode, form, info, a)) [[unlikely]]
    return kToHost;
  return judge_data(mode, info, a, out);
}

}  // namespace zh::mpi
