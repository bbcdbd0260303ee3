// Teams that never become ready: every collective is the host's.
#include "coll/team.h"

namespace zh::coll {

struct Team::State {
  uint32_t size;
  uint32_t self;
};

Team::Team(Services&, uint64_t, std::vector<uint32_t> members, uint32_t self)
    : state_(std::make_unique<State>(State{static_cast<uint32_t>(members.size()), self})) {}
Team::~Team() = default;

bool Team::ready() { return false; }
uint32_t Team::size() const { return state_->size; }
uint32_t Team::self() const { return state_->self; }

Code Team::barrier() { return Code::kNotSupported; }
Code Team::bcast(const copy::Buffer&, uint32_t) { return Code::kNotSupported; }
Code Team::gather(const copy::Buffer&, const Pieces&, uint32_t, bool) { return Code::kNotSupported; }
Code Team::scatter(const Pieces&, const copy::Buffer&, uint32_t, bool) { return Code::kNotSupported; }
Code Team::allgather(const copy::Buffer&, const Pieces&, bool) { return Code::kNotSupported; }
Code Team::alltoall(const Pieces&, const Pieces&, bool) { return Code::kNotSupported; }
Code Team::reduce(const void*, void*, uint64_t, const Reduction&, uint32_t) { return Code::kNotSupported; }
Code Team::allreduce(const void*, void*, uint64_t, const Reduction&) { return Code::kNotSupported; }
Code Team::reduce_scatter(const void*, void*, const uint64_t*, const Reduction&) { return Code::kNotSupported; }
Code Team::scan(const void*, void*, uint64_t, const Reduction&, bool) { return Code::kNotSupported; }

}  // namespace zh::coll
