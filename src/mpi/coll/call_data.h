// Collectives that move data: what each hands to a team, to a schedule and to the host. Each is a value with serve()
// (a blocking call by the team), prepare() (any other, by a schedule) and groups() (the arguments of the host's call);
// `calls::X<N>` is MPI_X with counts of type N. Called by wrap_coll.cpp and wrap_coll_start.cpp.
#pragma once

#include "coll/team/team.h"
#include "mpi/coll/collective_operation.h"
#include "mpi/coll/peers.h"

namespace zh::mpi::calls {

/// MPICH and Intel MPI refuse to send a piece that is also received (MPI standard 6.2.2: use MPI_IN_PLACE).
inline bool alias(const Elements& a, const Elements& b) {
  return kRefusesAliases && a.buf == b.buf && a.type == b.type && a.count == b.count && a.bytes() != 0;
}

struct Barrier {
  static constexpr auto kCollective = coll::Collective::kBarrier;
  MPI_Comm comm;
  [[nodiscard]] auto groups() const { return std::tie(); }
  /// Programs expect that what was said to the host before a barrier can be seen after it (MPI_Win_test); the host's
  /// own barrier would have turned it. Nothing else of the host's has such an end that only progress brings about.
  int serve(const CommInfo&, coll::Team& team) const {
    const int error = finish(team.barrier(), comm);
    if (shim.has_windows) [[unlikely]]
      pump_host();
    return error;
  }
  int prepare(const CommInfo&, CollectiveOperation&) const { return kGoOn; }
};

template <typename N>
struct Bcast {
  static constexpr auto kCollective = coll::Collective::kBcast;
  Data<N> data;
  int root;
  MPI_Comm comm;
  [[nodiscard]] auto groups() const { return std::tie(data, root); }

  int serve(const CommInfo& info, coll::Team& team) const {
    OneBuffer buffer(info.rank == root ? Use::kSend : Use::kReceive);
    ZH_STEP(open(info, &buffer));
    Code code = team.bcast(buffer.view(), static_cast<uint32_t>(root));
    if (kRefusesShortBcast && code == Code::kOk && team.fell_short()) [[unlikely]]
      code = Code::kInvalid;
    return finish(code, comm, buffer);
  }

  int prepare(const CommInfo& info, CollectiveOperation& s) const {
    HeldBuffer& buffer = info.rank == root ? s.input : s.output;
    s.problem.root = static_cast<uint32_t>(root);
    ZH_STEP(open(info, &buffer));
    s.problem.count = buffer.piece_bytes(info.rank);
    return kGoOn;
  }

 private:
  template <typename Buffer>
  int open(const CommInfo& info, Buffer* buffer) const {
    if (!is_rank(&info, root)) return raise(comm, MPI_ERR_ROOT);
    Elements elements;
    ZH_STEP(judge(data, comm, &elements));
    return buffer->open(elements, comm);
  }
};

/// Pieces are all alike (Data) or may differ (Listed, Typed).
template <typename Group>
constexpr bool kUniform = false;
template <typename N>
constexpr bool kUniform<Data<N>> = true;

// The buffers of a call, opened alike for a team (PeerBuffers and OneBuffer) and for a schedule (HeldBuffer): `all` has
// a piece of each member, `own` is this rank's where that is not among them already ("in place").

/// Each gives one piece; `receives`: this rank gets them all.
template <typename Give, typename Get, typename All, typename Own>
int open_gathered(const Give& give, const Get& get, bool receives, const CommInfo& info, All* all, Own* own) {
  if (receives) ZH_STEP(all->open(get, info));
  if (receives && give.buf == MPI_IN_PLACE) return kGoOn;
  Elements mine;
  ZH_STEP(judge(give, info.handle, &mine));
  if (receives) {
    if (alias(mine, all->at(info.rank))) return raise(info.handle, MPI_ERR_BUFFER);
    ZH_STEP(all->expect_own(info.rank, mine.bytes(), info.handle));
  }
  return own->open(mine, info.handle);
}

/// Each gets one piece; `sends`: this rank gives them all.
template <typename Give, typename Get, typename All, typename Own>
int open_scattered(const Give& give, const Get& get, bool sends, const CommInfo& info, All* all, Own* own) {
  if (sends) ZH_STEP(all->open(give, info));
  if (sends && get.buf == MPI_IN_PLACE) return kGoOn;
  Elements mine;
  ZH_STEP(judge(get, info.handle, &mine));
  if (sends) {
    const Elements given = all->at(info.rank);
    if (alias(mine, given)) return raise(info.handle, MPI_ERR_BUFFER);
    if (given.bytes() > mine.bytes()) return raise(info.handle, MPI_ERR_TRUNCATE);
  }
  return own->open(mine, info.handle);
}

/// What a team calls this rank's own piece.
inline int own_piece(bool in_place, const CommInfo& info, PeerBuffers* all, const OneBuffer& own, copy::Buffer* out) {
  if (in_place) return all->give_own(info.rank, out);
  *out = own.view();
  return kGoOn;
}

template <typename N, template <typename> typename Group>
struct GatherTo {
  static constexpr auto kCollective = coll::Collective::kGather;
  Data<N> send;
  Group<N> recv;
  int root;
  MPI_Comm comm;
  [[nodiscard]] auto groups() const { return std::tie(send, recv, root); }

  int serve(const CommInfo& info, coll::Team& team) const {
    if (!is_rank(&info, root)) return raise(comm, MPI_ERR_ROOT);
    const bool receives = info.rank == root;
    PeerBuffers in(Use::kReceive);
    OneBuffer out(Use::kSend);
    copy::Buffer own;
    ZH_STEP(open_gathered(send, recv, receives, info, &in, &out));
    ZH_STEP(own_piece(receives && send.buf == MPI_IN_PLACE, info, &in, out, &own));
    return finish(team.gather(own, in.pieces(), static_cast<uint32_t>(root), kUniform<Group<N>>), comm, in);
  }

  int prepare(const CommInfo& info, CollectiveOperation& s) const {
    if (!is_rank(&info, root)) return raise(comm, MPI_ERR_ROOT);
    const bool receives = info.rank == root;
    s.problem.root = static_cast<uint32_t>(root);
    s.problem.uniform = kUniform<Group<N>>;
    s.problem.in_place = receives && send.buf == MPI_IN_PLACE;
    ZH_STEP(open_gathered(send, recv, receives, info, &s.output, &s.input));
    s.problem.count = (receives ? s.output : s.input).piece_bytes(info.rank);
    s.problem.recv = s.output.pieces();
    return kGoOn;
  }
};

template <typename N, template <typename> typename Group>
struct ScatterFrom {
  static constexpr auto kCollective = coll::Collective::kScatter;
  Group<N> send;
  Data<N> recv;
  int root;
  MPI_Comm comm;
  [[nodiscard]] auto groups() const { return std::tie(send, recv, root); }

  int serve(const CommInfo& info, coll::Team& team) const {
    if (!is_rank(&info, root)) return raise(comm, MPI_ERR_ROOT);
    const bool sends = info.rank == root;
    PeerBuffers out(Use::kSend);
    OneBuffer in(Use::kReceive);
    copy::Buffer own;
    ZH_STEP(open_scattered(send, recv, sends, info, &out, &in));
    ZH_STEP(own_piece(sends && recv.buf == MPI_IN_PLACE, info, &out, in, &own));
    return finish(team.scatter(out.pieces(), own, static_cast<uint32_t>(root), kUniform<Group<N>>), comm, in);
  }

  int prepare(const CommInfo& info, CollectiveOperation& s) const {
    if (!is_rank(&info, root)) return raise(comm, MPI_ERR_ROOT);
    const bool sends = info.rank == root;
    s.problem.root = static_cast<uint32_t>(root);
    s.problem.uniform = kUniform<Group<N>>;
    s.problem.in_place = sends && recv.buf == MPI_IN_PLACE;
    ZH_STEP(open_scattered(send, recv, sends, info, &s.input, &s.output));
    s.problem.count = (sends ? s.input : s.output).piece_bytes(info.rank);
    s.problem.send = s.input.pieces();
    return kGoOn;
  }
};

template <typename N, template <typename> typename Group>
struct AllgatherTo {
  static constexpr auto kCollective = coll::Collective::kAllgather;
  Data<N> send;
  Group<N> recv;
  MPI_Comm comm;
  [[nodiscard]] auto groups() const { return std::tie(send, recv); }

  int serve(const CommInfo& info, coll::Team& team) const {
    PeerBuffers in(Use::kReceive);
    OneBuffer out(Use::kSend);
    copy::Buffer own;
    ZH_STEP(open_gathered(send, recv, true, info, &in, &out));
    ZH_STEP(own_piece(send.buf == MPI_IN_PLACE, info, &in, out, &own));
    return finish(team.allgather(own, in.pieces()), comm, in);
  }

  int prepare(const CommInfo& info, CollectiveOperation& s) const {
    s.problem.uniform = kUniform<Group<N>>;
    s.problem.in_place = send.buf == MPI_IN_PLACE;
    ZH_STEP(open_gathered(send, recv, true, info, &s.output, &s.input));
    s.problem.count = s.output.piece_bytes(info.rank);
    s.problem.recv = s.output.pieces();
    return kGoOn;
  }
};

template <typename N, template <typename> typename Group>
struct AlltoallOf {
  static constexpr auto kCollective = coll::Collective::kAlltoall;
  Group<N> send;
  Group<N> recv;
  MPI_Comm comm;
  [[nodiscard]] auto groups() const { return std::tie(send, recv); }

  int serve(const CommInfo& info, coll::Team& team) const {
    const bool in_place = send.buf == MPI_IN_PLACE;
    PeerBuffers in(Use::kReceive);
    PeerBuffers out(in_place ? Use::kCopy : Use::kSend);
    ZH_STEP(in.open(recv, info));
    ZH_STEP(in_place ? out.open(recv, info) : open_given(info, &in, &out));
    return finish(team.alltoall(out.pieces(), in.pieces(), kUniform<Group<N>>), comm, in);
  }

  int prepare(const CommInfo& info, CollectiveOperation& s) const {
    s.problem.uniform = kUniform<Group<N>>;
    s.problem.in_place = send.buf == MPI_IN_PLACE;
    // In place the schedule copies everything from the first piece to the last.
    ZH_STEP(s.output.open(recv, info, s.problem.in_place));
    if (!s.problem.in_place) ZH_STEP(open_given(info, &s.output, &s.input));
    s.problem.count = s.output.piece_bytes(info.rank);
    s.problem.send = s.input.pieces();
    s.problem.recv = s.output.pieces();
    return kGoOn;
  }

 private:
  /// What is sent, where it is not what was in `in`.
  template <typename Buffers>
  int open_given(const CommInfo& info, Buffers* in, Buffers* out) const {
    ZH_STEP(out->open(send, info));
    const Elements mine = out->at(info.rank);
    if (send.buf == recv.buf && alias(mine, in->at(info.rank))) return raise(comm, MPI_ERR_BUFFER);
    return in->expect_own(info.rank, mine.bytes(), comm);
  }
};

template <typename N>
using Gather = GatherTo<N, Data>;
template <typename N>
using Gatherv = GatherTo<N, Listed>;
template <typename N>
using Scatter = ScatterFrom<N, Data>;
template <typename N>
using Scatterv = ScatterFrom<N, Listed>;
template <typename N>
using Allgather = AllgatherTo<N, Data>;
template <typename N>
using Allgatherv = AllgatherTo<N, Listed>;
template <typename N>
using Alltoall = AlltoallOf<N, Data>;
template <typename N>
using Alltoallv = AlltoallOf<N, Listed>;
template <typename N>
using Alltoallw = AlltoallOf<N, Typed>;

}  // namespace zh::mpi::calls
