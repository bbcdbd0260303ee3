// Reductions: what each hands to a team, to a schedule and to the host (see call_data.h). Whether an operation is
// served follows from the operation and the datatype, which all members share. Called by wrap_coll.cpp.
#pragma once

#include "coll/team/team.h"
#include "mpi/coll/collective_operation.h"
#include "mpi/coll/peers.h"
#include "mpi/handles/reduction.h"

namespace zh::mpi::calls {

constexpr const char* kOtherReductions = "collectives: reductions of other operations or datatypes";

/// The operation, for elements of that datatype.
inline int judge_op(MPI_Op op, MPI_Datatype datatype, MPI_Comm comm, Reducing* r) {
  OpInfo* info = ops.find(key_of(op));
  if (info == nullptr) [[unlikely]]
    return op == MPI_OP_NULL ? raise(comm, MPI_ERR_OP) : leave_to_host(kOtherReductions);
  TypeInfo* type = types.find(key_of(datatype));
  if (type == nullptr) [[unlikely]] {
    if (datatype == MPI_DATATYPE_NULL) return raise(comm, kNoOperands);
    if (const int error = learn_type(datatype, 1, comm, &type); type == nullptr) return error;
  }
  if (!find_reduction(*info, op, *type, &r->user, &r->how)) return leave_to_host(kOtherReductions);
  r->handle = op;
  r->op = info;
  r->type = type;
  return kGoOn;
}

/// The buffers; `receives`: this rank gets a result, and may give its operand in its place.
inline int judge_buffers(const void* in, void* out, bool receives, MPI_Comm comm, Reducing* r) {
  const bool in_place = in == MPI_IN_PLACE;
  if (in == nullptr) [[unlikely]]
    return raise(comm, MPI_ERR_BUFFER);
  if (receives) {
    if (out == MPI_IN_PLACE) [[unlikely]]
      return raise(comm, kNotInPlace);
    if (out == nullptr || (kRefusesAliases && in == out)) [[unlikely]]
      return raise(comm, MPI_ERR_BUFFER);
  } else if (in_place) [[unlikely]] {
    return raise(comm, kNotInPlace);
  }
  r->in = in_place ? out : in;
  r->out = receives ? out : nullptr;
  return kGoOn;
}

/// The operands as what a schedule works on.
inline void plan_reduction(const void* in, uint64_t count, CollectiveOperation& s) {
  s.problem.in_place = in == MPI_IN_PLACE;
  s.problem.count = count;
  s.problem.element_bytes = s.reducing.how.element_bytes;
  s.problem.commutative = s.reducing.how.commutative;
  if (!s.problem.in_place) s.input.open(const_cast<void*>(s.reducing.in));
  s.output.open(s.reducing.out);
}

/// All of a reduction of `count` elements. Of none the buffers are nobody's business; others may have some.
template <typename N>
inline int judge(const Operands<N>& x, bool receives, MPI_Comm comm, Reducing* r) {
  ZH_STEP(judge_op(x.op, x.type, comm, r));
  if (x.count < 0) [[unlikely]]
    return raise(comm, MPI_ERR_COUNT);
  if (x.count == 0) [[unlikely]]
    return kGoOn;
  return judge_buffers(x.in, x.out, receives, comm, r);
}

template <typename N>
struct Reduce {
  static constexpr auto kCollective = coll::Collective::kReduce;
  Operands<N> operands;
  int root;
  MPI_Comm comm;
  [[nodiscard]] auto groups() const { return std::tie(operands, root); }

  int serve(const CommInfo& info, coll::Team& team) const {
    Reducing r;
    ZH_STEP(judge_rooted(info, &r));
    const auto n = static_cast<uint64_t>(operands.count);
    return finish(team.reduce(r.in, r.out, n, r.how, static_cast<uint32_t>(root)), comm);
  }

  int prepare(const CommInfo& info, CollectiveOperation& s) const {
    s.problem.root = static_cast<uint32_t>(root);
    ZH_STEP(judge_rooted(info, &s.reducing));
    plan_reduction(operands.in, static_cast<uint64_t>(operands.count), s);
    return kGoOn;
  }

 private:
  int judge_rooted(const CommInfo& info, Reducing* r) const {
    if (!is_rank(&info, root)) return raise(comm, MPI_ERR_ROOT);
    return judge(operands, info.rank == root, comm, r);
  }
};

/// Those whose every member gives operands and gets a result of as many elements.
template <typename N, coll::Collective kWhich>
struct ReduceToAll {
  static constexpr auto kCollective = kWhich;
  Operands<N> operands;
  MPI_Comm comm;
  [[nodiscard]] auto groups() const { return std::tie(operands); }

  int serve(const CommInfo&, coll::Team& team) const {
    Reducing r;
    ZH_STEP(judge(operands, true, comm, &r));
    const auto n = static_cast<uint64_t>(operands.count);
    if constexpr (kWhich == coll::Collective::kAllreduce) return finish(team.allreduce(r.in, r.out, n, r.how), comm);
    return finish(team.scan(r.in, r.out, n, r.how, kWhich == coll::Collective::kExscan), comm);
  }

  int prepare(const CommInfo&, CollectiveOperation& s) const {
    ZH_STEP(judge(operands, true, comm, &s.reducing));
    plan_reduction(operands.in, static_cast<uint64_t>(operands.count), s);
    return kGoOn;
  }
};

template <typename N>
using Allreduce = ReduceToAll<N, coll::Collective::kAllreduce>;
template <typename N>
using Scan = ReduceToAll<N, coll::Collective::kScan>;
template <typename N>
using Exscan = ReduceToAll<N, coll::Collective::kExscan>;

/// Elements for each member of the team, as the team takes them.
class Shares {
 public:
  template <typename Count>
  int open(const CommInfo& comm, Count&& count_of) {
    const auto n = static_cast<size_t>(comm.size);
    if (n > kFew) many_ = std::make_unique<uint64_t[]>(n);
    counts_ = n > kFew ? many_.get() : few_;
    for (size_t i = 0; i < n; ++i) {
      const MPI_Count count = count_of(i);
      if (count < 0) return raise(comm.handle, MPI_ERR_COUNT);
      counts_[i] = static_cast<uint64_t>(count);
      total_ += counts_[i];
    }
    return kGoOn;
  }
  [[nodiscard]] const uint64_t* counts() const { return counts_; }
  [[nodiscard]] uint64_t total() const { return total_; }

 private:
  static constexpr size_t kFew = 32;
  uint64_t few_[kFew];
  std::unique_ptr<uint64_t[]> many_;
  uint64_t* counts_ = nullptr;
  uint64_t total_ = 0;
};

/// The share of a member.
template <typename N>
inline N share_of(const Operands<N>& operands, size_t) {
  return operands.count;
}
template <typename N>
inline N share_of(const ListedOperands<N>& operands, size_t member) {
  return operands.counts[member];
}

template <typename N, template <typename> typename Group>
struct ReduceScatterOf {
  static constexpr auto kCollective = coll::Collective::kReduceScatter;
  Group<N> operands;
  MPI_Comm comm;
  [[nodiscard]] auto groups() const { return std::tie(operands); }

  int serve(const CommInfo& info, coll::Team& team) const {
    Reducing r;
    Shares shares;
    ZH_STEP(judge_all(info, &r, &shares));
    return finish(team.reduce_scatter(r.in, r.out, shares.counts(), r.how), comm);
  }

  int prepare(const CommInfo& info, CollectiveOperation& s) const {
    s.problem.uniform = std::is_same_v<Group<N>, Operands<N>>;  // also of a rank that refuses its arguments
    Shares shares;
    ZH_STEP(judge_all(info, &s.reducing, &shares));
    plan_reduction(operands.in, shares.counts()[info.rank], s);
    uint64_t at = 0;
    for (int32_t i = 0; i < info.size && !s.problem.uniform; ++i) {
      const uint64_t bytes = shares.counts()[i] * s.reducing.how.element_bytes;
      s.problem.send.push_back({at, bytes});
      at += bytes;
    }
    return kGoOn;
  }

 private:
  int judge_all(const CommInfo& info, Reducing* r, Shares* shares) const {
    ZH_STEP(judge_op(operands.op, operands.type, comm, r));
    ZH_STEP(shares->open(info, [this](size_t member) { return share_of(operands, member); }));
    if (shares->total() == 0) return kGoOn;
    // A rank with no share of the result may have no buffer for it.
    void* out = operands.out == nullptr && shares->counts()[info.rank] == 0 ? r : operands.out;
    return judge_buffers(operands.in, out, true, comm, r);
  }
};

template <typename N>
using Reduce_scatter_block = ReduceScatterOf<N, Operands>;
template <typename N>
using Reduce_scatter = ReduceScatterOf<N, ListedOperands>;

}  // namespace zh::mpi::calls
