// The collectives of include/zerohop/zerohop.h: blocking ones by a team of the job's ranks, nonblocking ones as
// engine::CollectiveCall.
#include <algorithm>
#include <iterator>
#include <vector>

#include "capi/rank.h"
#include "engine/contexts.h"
#include "simd/reduce.h"

using namespace zh;
using capi::to_errno;

namespace {

constexpr uint64_t kContext = engine::kWorldContext;

copy::Buffer buffer(const void* data, size_t bytes) {
  return {static_cast<std::byte*>(const_cast<void*>(data)), bytes, nullptr};
}

/// One piece behind another.
coll::Pieces pieces(const void* data, size_t bytes) {
  return {buffer(data, bytes), static_cast<int64_t>(bytes), nullptr};
}

/// A rank's own one.
void* piece_of(const zh_rank* self, void* all, size_t bytes) {
  return static_cast<std::byte*>(all) + static_cast<size_t>(self->job->rank()) * bytes;
}

/// The team of all ranks. -ENOSYS: some are on other nodes. Waits for all at its first call.
int team_of(zh_rank* self, coll::Team** out) try {
  const std::lock_guard lock(self->collectives_mutex);
  const auto n = static_cast<uint32_t>(self->job->size());
  if (self->team == nullptr) {
    std::vector<uint32_t> members;
    for (int r = 0; r < self->job->size(); ++r) {
      if (zh_reachable(self, r) == 0) return -ENOSYS;
      members.push_back(static_cast<uint32_t>(self->node->local_index(r)));
    }
    const auto list = std::make_shared<std::vector<int32_t>>(members.begin(), members.end());
    const auto rank = static_cast<uint32_t>(self->job->rank());
    self->team = self->rank->make_team(engine::team_context(kContext), std::move(members), rank);
    const engine::CommRanks ranks{kContext, rank, {*list, list}, {}, coll::Layout::one_node(n)};
    self->collectives = std::make_shared<engine::Collectives>(*self->rank, ranks, self->precedence);
  }
  *out = self->team.get();
  return self->team != nullptr && self->team->ready() ? 0 : -ENOMEM;
} catch (const std::bad_alloc&) {
  return -ENOMEM;
}

bool is_root(const zh_rank* self, int root) { return root == self->job->rank(); }
bool wrong_root(const zh_rank* self, int root) { return root < 0 || root >= self->job->size(); }

/// Elements of a reduction; false: there is none such.
bool find(zh_type type, zh_op op, coll::Reduction* out) {
  constexpr simd::Type kTypes[] = {simd::Type::kInt8,  simd::Type::kInt16,  simd::Type::kInt32,  simd::Type::kInt64,
                                   simd::Type::kUint8, simd::Type::kUint16, simd::Type::kUint32, simd::Type::kUint64,
                                   simd::Type::kFloat, simd::Type::kDouble};
  constexpr simd::Op kOps[] = {simd::Op::kSum,  simd::Op::kProd, simd::Op::kMin, simd::Op::kMax,
                               simd::Op::kBand, simd::Op::kBor,  simd::Op::kBxor};
  if (static_cast<size_t>(type) >= std::size(kTypes) || static_cast<size_t>(op) >= std::size(kOps)) return false;
  out->kernel = simd::kernel(kOps[op], kTypes[type]);
  out->element_bytes = simd::size_of(kTypes[type]);
  return out->kernel != nullptr;
}

/// Calls f(team) where there is one. Where this rank's arguments are `wrong`, those that wait for it learn so.
template <typename F>
int by_team(zh_rank* self, bool wrong, bool to_all, F&& f) {
  coll::Team* team = nullptr;
  if (const int error = team_of(self, &team); error != 0) return error;
  if (wrong) team->refuse(to_all);
  const Code code = wrong ? Code::kInvalid : f(*team);
  if (code != Code::kOk) self->spoilt.store_relaxed(1);
  return to_errno(code);
}

/// Starts what `describe(problem, buffers)` says. Of nothing a call is complete at once. `wrong`: as by_team() has it.
template <typename F>
int start(zh_rank* self, coll::Collective collective, bool wrong, zh_request** out, F&& describe) try {
  coll::Team* team = nullptr;
  if (const int error = team_of(self, &team); error != 0) return error;
  auto request = std::make_unique<zh_request>();
  auto call = std::make_unique<capi::StartedCollective>(self->collectives, self->spoilt);
  call->problem.collective = collective;
  if (wrong) {
    call->refuse();
    return -EINVAL;
  }
  describe(call->problem, call->buffers);
  call->problem.element_bytes = std::max<uint64_t>(1, call->buffers.how.element_bytes);
  call->buffers.exact = true;
  if (call->problem.count == 0 && collective != coll::Collective::kBarrier) {
    call->make_empty();
  } else if (const Status status = call->ready(); !status.ok()) {
    call->refuse();
    return to_errno(status.code());
  }
  call->start();
  request->call = std::move(call);
  *out = request.release();
  return 0;
} catch (const std::bad_alloc&) {
  return -ENOMEM;
}

}  // namespace

extern "C" {

int zh_barrier(zh_rank* self) {
  return by_team(self, false, false, [](coll::Team& team) { return team.barrier(); });
}

int zh_bcast(zh_rank* self, void* data, size_t bytes, int root) {
  return by_team(self, wrong_root(self, root), false,
                 [&](coll::Team& t) { return t.bcast(buffer(data, bytes), static_cast<uint32_t>(root)); });
}

int zh_gather(zh_rank* self, const void* send, size_t bytes, void* recv, int root) {
  const void* const own = send == nullptr && is_root(self, root) ? piece_of(self, recv, bytes) : send;
  return by_team(self, wrong_root(self, root), false, [&](coll::Team& t) {
    return t.gather(buffer(own, bytes), pieces(recv, bytes), static_cast<uint32_t>(root), true);
  });
}

int zh_scatter(zh_rank* self, const void* send, size_t bytes, void* recv, int root) {
  void* const own = recv == nullptr && is_root(self, root) ? piece_of(self, const_cast<void*>(send), bytes) : recv;
  return by_team(self, wrong_root(self, root), false, [&](coll::Team& t) {
    return t.scatter(pieces(send, bytes), buffer(own, bytes), static_cast<uint32_t>(root), true);
  });
}

int zh_allgather(zh_rank* self, const void* send, size_t bytes, void* recv) {
  const void* const own = send == nullptr ? piece_of(self, recv, bytes) : send;
  return by_team(self, false, false,
                 [&](coll::Team& t) { return t.allgather(buffer(own, bytes), pieces(recv, bytes)); });
}

int zh_alltoall(zh_rank* self, const void* send, size_t bytes, void* recv) {
  return by_team(self, false, false,
                 [&](coll::Team& t) { return t.alltoall(pieces(send, bytes), pieces(recv, bytes), true); });
}

int zh_reduce(zh_rank* self, const void* in, void* out, size_t count, zh_type type, zh_op op, int root) {
  coll::Reduction how;
  const bool wrong = !find(type, op, &how) || wrong_root(self, root);
  return by_team(self, wrong, false, [&](coll::Team& t) {
    return t.reduce(in, is_root(self, root) ? out : nullptr, count, how, static_cast<uint32_t>(root));
  });
}

int zh_allreduce(zh_rank* self, const void* in, void* out, size_t count, zh_type type, zh_op op) {
  coll::Reduction how;
  const bool wrong = !find(type, op, &how);
  return by_team(self, wrong, true, [&](coll::Team& t) { return t.allreduce(in, out, count, how); });
}

int zh_reduce_scatter(zh_rank* self, const void* in, void* out, size_t count, zh_type type, zh_op op) {
  coll::Reduction how;
  const bool wrong = !find(type, op, &how);
  return by_team(self, wrong, false, [&](coll::Team& t) {
    const std::vector<uint64_t> counts(t.size(), count);
    return t.reduce_scatter(in, out, counts.data(), how);
  });
}

int zh_scan(zh_rank* self, const void* in, void* out, size_t count, zh_type type, zh_op op) {
  coll::Reduction how;
  const bool wrong = !find(type, op, &how);
  return by_team(self, wrong, false, [&](coll::Team& t) { return t.scan(in, out, count, how, false); });
}

int zh_ibarrier(zh_rank* self, zh_request** out) {
  return start(self, coll::Collective::kBarrier, false, out, [](coll::Problem&, coll::Call&) {});
}

int zh_ibcast(zh_rank* self, void* data, size_t bytes, int root, zh_request** out) {
  return start(self, coll::Collective::kBcast, wrong_root(self, root), out, [&](coll::Problem& p, coll::Call& c) {
    p.root = static_cast<uint32_t>(root);
    p.count = bytes;
    c.input = is_root(self, root) ? data : nullptr;
    c.output = is_root(self, root) ? nullptr : data;
  });
}

int zh_iallgather(zh_rank* self, const void* send, size_t bytes, void* recv, zh_request** out) {
  return start(self, coll::Collective::kAllgather, false, out, [&](coll::Problem& p, coll::Call& c) {
    p.in_place = send == nullptr;
    p.count = bytes;
    c.input = send;
    c.output = recv;
  });
}

int zh_ialltoall(zh_rank* self, const void* send, size_t bytes, void* recv, zh_request** out) {
  return start(self, coll::Collective::kAlltoall, false, out, [&](coll::Problem& p, coll::Call& c) {
    p.count = bytes;
    c.input = send;
    c.output = recv;
  });
}

int zh_iallreduce(zh_rank* self, const void* in, void* out, size_t count, zh_type type, zh_op op,
                  zh_request** request) {
  coll::Reduction how;
  const bool wrong = !find(type, op, &how);
  return start(self, coll::Collective::kAllreduce, wrong, request, [&](coll::Problem& p, coll::Call& c) {
    p.in_place = in == out;
    p.count = count;
    c.input = p.in_place ? nullptr : in;
    c.output = out;
    c.how = how;
  });
}

}  // extern "C"
