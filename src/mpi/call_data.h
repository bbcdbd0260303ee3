// Collectives that move data: what each hands to a team, and what to the host. Each is a value with forward() (the
// host's blocking call) and serve() (the team's); `calls::X<N>` is MPI_X with counts of type N. Called by
// wrap_coll.cpp.
#pragma once

#include "coll/team.h"
#include "mpi/peers.h"

namespace zh::mpi::calls {

/// MPICH and Intel MPI refuse to send a piece that is also received (MPI standard 6.2.2: use MPI_IN_PLACE).
inline bool alias(const Elements& a, const Elements& b) {
  return kRefusesAliases && a.buf == b.buf && a.type == b.type && a.count == b.count && a.bytes() != 0;
}

struct Barrier {
  MPI_Comm comm;
  [[nodiscard]] int forward() const { return host.Barrier(comm); }
  int serve(const CommInfo&, coll::Team& team) const { return finish(team.barrier(), comm); }
};

template <typename N>
struct Bcast {
  Data<N> data;
  int root;
  MPI_Comm comm;

  [[nodiscard]] int forward() const { return call_host<N, form::Bcast>(comm, data, root); }

  int serve(const CommInfo& info, coll::Team& team) const {
    if (!is_rank(&info, root)) return raise(comm, MPI_ERR_ROOT);
    Elements elements;
    OneBuffer buffer;
    ZH_STEP(judge(data, comm, &elements));
    if (elements.bytes() == 0) return MPI_SUCCESS;
    ZH_STEP(buffer.open(elements, info.rank == root ? Use::kSend : Use::kReceive, comm));
    return finish(team.bcast(buffer.view(), static_cast<uint32_t>(root)), comm, buffer);
  }
};

/// Pieces are all alike (Data) or may differ (Listed, Typed).
template <typename Group>
constexpr bool kUniform = false;
template <typename N>
constexpr bool kUniform<Data<N>> = true;

template <typename N, template <typename> typename Group, typename Form>
struct GatherTo {
  Data<N> send;
  Group<N> recv;
  int root;
  MPI_Comm comm;

  [[nodiscard]] int forward() const { return call_host<N, Form>(comm, send, recv, root); }

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
};

template <typename N, template <typename> typename Group, typename Form>
struct ScatterFrom {
  Group<N> send;
  Data<N> recv;
  int root;
  MPI_Comm comm;

  [[nodiscard]] int forward() const { return call_host<N, Form>(comm, send, recv, root); }

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
};

template <typename N, template <typename> typename Group, typename Form>
struct AllgatherTo {
  Data<N> send;
  Group<N> recv;
  MPI_Comm comm;

  [[nodiscard]] int forward() const { return call_host<N, Form>(comm, send, recv); }

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
    return finish(team.allgather(own, in.pieces(), kUniform<Group<N>>), comm, in);
  }
};

template <typename N, template <typename> typename Group, typename Form>
struct AlltoallOf {
  Group<N> send;
  Group<N> recv;
  MPI_Comm comm;

  [[nodiscard]] int forward() const { return call_host<N, Form>(comm, send, recv); }

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
};

template <typename N>
using Gather = GatherTo<N, Data, form::Gather>;
template <typename N>
using Gatherv = GatherTo<N, Listed, form::Gatherv>;
template <typename N>
using Scatter = ScatterFrom<N, Data, form::Scatter>;
template <typename N>
using Scatterv = ScatterFrom<N, Listed, form::Scatterv>;
template <typename N>
using Allgather = AllgatherTo<N, Data, form::Allgather>;
template <typename N>
using Allgatherv = AllgatherTo<N, Listed, form::Allgatherv>;
template <typename N>
using Alltoall = AlltoallOf<N, Data, form::Alltoall>;
template <typename N>
using Alltoallv = AlltoallOf<N, Listed, form::Alltoallv>;
template <typename N>
using Alltoallw = AlltoallOf<N, Typed, form::Alltoallw>;

}  // namespace zh::mpi::calls
