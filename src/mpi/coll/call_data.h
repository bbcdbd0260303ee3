// Collectives that move data: what each hands to a team, to a schedule and to the host. Each is a value with serve()
// (a blocking call by the team), prepare() (any other, by a schedule) and forward() (the host's call of any form);
// `calls::X<N>` is MPI_X with counts of type N. Called by wrap_coll.cpp and wrap_coll_start.cpp.
#pragma once

#include "coll/team/team.h"
#include "mpi/coll/peers.h"
#include "mpi/coll/started.h"

namespace zh::mpi::calls {

/// MPICH and Intel MPI refuse to send a piece that is also received (MPI standard 6.2.2: use MPI_IN_PLACE).
inline bool alias(const Elements& a, const Elements& b) {
  return kRefusesAliases && a.buf == b.buf && a.type == b.type && a.count == b.count && a.bytes() != 0;
}

struct Barrier {
  static constexpr auto kCollective = coll::Collective::kBarrier;
  MPI_Comm comm;
  template <typename Form, typename End>
  [[nodiscard]] int forward(const End& end) const {
    return call_host<int, Form>(end);
  }
  /// Programs expect that what was said to the host before a barrier can be seen after it (MPI_Win_test); the host's
  /// own barrier would have turned it. Nothing else of the host's has such an end that only progress brings about.
  int serve(const CommInfo&, coll::Team& team) const {
    const int error = finish(team.barrier(), comm);
    if (shim.has_windows) [[unlikely]]
      pump_host();
    return error;
  }
  int prepare(const CommInfo&, Started&) const { return kGoOn; }
};

template <typename N>
struct Bcast {
  static constexpr auto kCollective = coll::Collective::kBcast;
  Data<N> data;
  int root;
  MPI_Comm comm;

  template <typename Form, typename End>
  [[nodiscard]] int forward(const End& end) const {
    return call_host<N, Form>(end, data, root);
  }

  int serve(const CommInfo& info, coll::Team& team) const {
    if (!is_rank(&info, root)) return raise(comm, MPI_ERR_ROOT);
    Elements elements;
    OneBuffer buffer;
    ZH_STEP(judge(data, comm, &elements));
    ZH_STEP(buffer.open(elements, info.rank == root ? Use::kSend : Use::kReceive, comm));
    Code code = team.bcast(buffer.view(), static_cast<uint32_t>(root));
    if (kRefusesShortBcast && code == Code::kOk && team.fell_short()) [[unlikely]]
      code = Code::kInvalid;
    return finish(code, comm, buffer);
  }

  int prepare(const CommInfo& info, Started& s) const {
    if (!is_rank(&info, root)) return raise(comm, MPI_ERR_ROOT);
    Elements elements;
    ZH_STEP(judge(data, comm, &elements));
    s.problem.root = static_cast<uint32_t>(root);
    s.problem.count = elements.bytes();
    return (info.rank == root ? s.input : s.output).open(elements, comm);
  }
};

/// Pieces are all alike (Data) or may differ (Listed, Typed).
template <typename Group>
constexpr bool kUniform = false;
template <typename N>
constexpr bool kUniform<Data<N>> = true;

/// This rank's own data, where it is not among what it receives: `mine`, of which `room` has to hold as much.
inline int open_own(const Elements& mine, HeldBuffer* own, HeldBuffer* room, const CommInfo& info) {
  if (room != nullptr) {
    if (alias(mine, room->at(info.rank, info.size))) return raise(info.handle, MPI_ERR_BUFFER);
    ZH_STEP(room->expect_own(info.rank, mine.bytes(), info.handle));
  }
  return own->open(mine, info.handle);
}

template <typename N, template <typename> typename Group>
struct GatherTo {
  static constexpr auto kCollective = coll::Collective::kGather;
  Data<N> send;
  Group<N> recv;
  int root;
  MPI_Comm comm;

  template <typename Form, typename End>
  [[nodiscard]] int forward(const End& end) const {
    return call_host<N, Form>(end, send, recv, root);
  }

  int serve(const CommInfo& info, coll::Team& team) const {
    if (!is_rank(&info, root)) return raise(comm, MPI_ERR_ROOT);
    const bool receives = info.rank == root;
    PeerBuffers in;
    OneBuffer out;
    copy::Buffer own;
    if (receives) ZH_STEP(in.open(recv, info, Use::kReceive));
    if (receives && send.buf == MPI_IN_PLACE) {
      ZH_STEP(in.give_own(info.rank, &own));
    } else {
      Elements mine;
      ZH_STEP(judge(send, comm, &mine));
      if (receives && alias(mine, in.at(info.rank))) return raise(comm, MPI_ERR_BUFFER);
      ZH_STEP(out.open(mine, Use::kSend, comm));
      own = out.view();
      if (receives) ZH_STEP(in.expect_own(info.rank, own.bytes));
    }
    return finish(team.gather(own, in.pieces(), static_cast<uint32_t>(root), kUniform<Group<N>>), comm, in);
  }

  int prepare(const CommInfo& info, Started& s) const {
    if (!is_rank(&info, root)) return raise(comm, MPI_ERR_ROOT);
    const bool receives = info.rank == root;
    s.problem.root = static_cast<uint32_t>(root);
    s.problem.uniform = kUniform<Group<N>>;
    s.problem.in_place = receives && send.buf == MPI_IN_PLACE;
    if (receives) ZH_STEP(s.output.open(recv, info));
    if (!s.problem.in_place) {
      Elements mine;
      ZH_STEP(judge(send, comm, &mine));
      s.problem.count = mine.bytes();
      ZH_STEP(open_own(mine, &s.input, receives ? &s.output : nullptr, info));
    }
    if (receives) s.problem.count = s.output.piece_bytes(info.rank);
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

  template <typename Form, typename End>
  [[nodiscard]] int forward(const End& end) const {
    return call_host<N, Form>(end, send, recv, root);
  }

  int serve(const CommInfo& info, coll::Team& team) const {
    if (!is_rank(&info, root)) return raise(comm, MPI_ERR_ROOT);
    const bool sends = info.rank == root;
    PeerBuffers out;
    OneBuffer in;
    copy::Buffer own;
    if (sends) ZH_STEP(out.open(send, info, Use::kSend));
    if (sends && recv.buf == MPI_IN_PLACE) {
      ZH_STEP(out.give_own(info.rank, &own));
    } else {
      Elements mine;
      ZH_STEP(judge(recv, comm, &mine));
      if (sends && alias(mine, out.at(info.rank))) return raise(comm, MPI_ERR_BUFFER);
      if (sends && out.at(info.rank).bytes() > mine.bytes()) return raise(comm, MPI_ERR_TRUNCATE);
      ZH_STEP(in.open(mine, Use::kReceive, comm));
      own = in.view();
    }
    return finish(team.scatter(out.pieces(), own, static_cast<uint32_t>(root), kUniform<Group<N>>), comm, in);
  }

  int prepare(const CommInfo& info, Started& s) const {
    if (!is_rank(&info, root)) return raise(comm, MPI_ERR_ROOT);
    const bool sends = info.rank == root;
    s.problem.root = static_cast<uint32_t>(root);
    s.problem.uniform = kUniform<Group<N>>;
    s.problem.in_place = sends && recv.buf == MPI_IN_PLACE;
    if (sends) ZH_STEP(s.input.open(send, info));
    if (!s.problem.in_place) {
      Elements mine;
      ZH_STEP(judge(recv, comm, &mine));
      s.problem.count = mine.bytes();
      if (sends && alias(mine, s.input.at(info.rank, info.size))) return raise(comm, MPI_ERR_BUFFER);
      if (sends && s.input.piece_bytes(info.rank) > mine.bytes()) return raise(comm, MPI_ERR_TRUNCATE);
      ZH_STEP(s.output.open(mine, comm));
    }
    if (sends) s.problem.count = s.input.piece_bytes(info.rank);
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

  template <typename Form, typename End>
  [[nodiscard]] int forward(const End& end) const {
    return call_host<N, Form>(end, send, recv);
  }

  int serve(const CommInfo& info, coll::Team& team) const {
    PeerBuffers in;
    OneBuffer out;
    copy::Buffer own;
    ZH_STEP(in.open(recv, info, Use::kReceive));
    if (send.buf == MPI_IN_PLACE) {
      ZH_STEP(in.give_own(info.rank, &own));
    } else {
      Elements mine;
      ZH_STEP(judge(send, comm, &mine));
      if (alias(mine, in.at(info.rank))) return raise(comm, MPI_ERR_BUFFER);
      ZH_STEP(out.open(mine, Use::kSend, comm));
      own = out.view();
      ZH_STEP(in.expect_own(info.rank, own.bytes));
    }
    return finish(team.allgather(own, in.pieces()), comm, in);
  }

  int prepare(const CommInfo& info, Started& s) const {
    s.problem.uniform = kUniform<Group<N>>;
    s.problem.in_place = send.buf == MPI_IN_PLACE;
    ZH_STEP(s.output.open(recv, info));
    if (!s.problem.in_place) {
      Elements mine;
      ZH_STEP(judge(send, comm, &mine));
      ZH_STEP(open_own(mine, &s.input, &s.output, info));
    }
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

  template <typename Form, typename End>
  [[nodiscard]] int forward(const End& end) const {
    return call_host<N, Form>(end, send, recv);
  }

  int serve(const CommInfo& info, coll::Team& team) const {
    PeerBuffers in;
    PeerBuffers out;
    ZH_STEP(in.open(recv, info, Use::kReceive));
    if (send.buf == MPI_IN_PLACE) {
      ZH_STEP(out.open(recv, info, Use::kCopy));
    } else {
      ZH_STEP(out.open(send, info, Use::kSend));
      const Elements mine = out.at(info.rank);
      if (send.buf == recv.buf && alias(mine, in.at(info.rank))) return raise(comm, MPI_ERR_BUFFER);
      ZH_STEP(in.expect_own(info.rank, mine.bytes()));
    }
    return finish(team.alltoall(out.pieces(), in.pieces(), kUniform<Group<N>>), comm, in);
  }

  int prepare(const CommInfo& info, Started& s) const {
    s.problem.uniform = kUniform<Group<N>>;
    s.problem.in_place = send.buf == MPI_IN_PLACE;
    // In place the schedule copies everything from the first piece to the last.
    ZH_STEP(s.output.open(recv, info, s.problem.in_place));
    if (!s.problem.in_place) {
      ZH_STEP(s.input.open(send, info));
      const Elements mine = s.input.at(info.rank, info.size);
      if (send.buf == recv.buf && alias(mine, s.output.at(info.rank, info.size))) return raise(comm, MPI_ERR_BUFFER);
      ZH_STEP(s.output.expect_own(info.rank, mine.bytes(), comm));
    }
    s.problem.count = s.output.piece_bytes(info.rank);
    s.problem.send = s.input.pieces();
    s.problem.recv = s.output.pieces();
    return kGoOn;
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
