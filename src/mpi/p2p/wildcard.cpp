// See wildcard.h. Under comm->wild_mutex; the host calls in here never block.
#include "mpi/p2p/wildcard.h"

#include <algorithm>

namespace zh::mpi {
namespace {

std::mutex queues_mutex;
std::list<CommInfo*> busy;  // communicators with waiting receives
Atomic<uint32_t> n_waiting{0};

bool overlap(int a, int b, int any) { return a == b || a == any || b == any; }

/// Whether the receive can take a message (or what another receive can take) with that source and tag.
bool matches(const Operation* op, int source, int tag) {
  return overlap(op->source, source, MPI_ANY_SOURCE) && overlap(op->tag, tag, MPI_ANY_TAG);
}

/// Its receive is the host's from here.
void post(Operation* op, int source, int tag, MPI_Comm comm) {
  op->error = counted::Irecv(op->buf, op->count, op->host_type, source, tag, comm, &op->host_request);
}

}  // namespace

WildcardQueue::~WildcardQueue() {
  const TableLock lock(queues_mutex);
  busy.remove(comm_);
}

bool WildcardQueue::blocked(const Operation* op) const {
  for (const Operation* earlier : waiting_) {
    if (earlier == op) return false;
    if (matches(earlier, op->source, op->tag)) return true;
  }
  return false;
}

bool WildcardQueue::claims(int source, int tag) const {
  const TableLock lock(comm_->wild_mutex);
  return first_match(source, tag) != nullptr;
}

Operation* WildcardQueue::first_match(int source, int tag) const {
  for (Operation* op : waiting_) {
    if (matches(op, source, tag)) return op;
  }
  return nullptr;
}

bool WildcardQueue::add(Operation* op, const p2p::RecvArgs* engine_args) {
  const TableLock lock(comm_->wild_mutex);
  if (engine_args == nullptr && !blocked(op)) {
    op->state = Operation::State::kHost;
    post(op, op->source, op->tag, comm_->handle);
    return false;
  }
  if (engine_args != nullptr) op->engine = shim.rank->irecv(*engine_args);
  op->state = Operation::State::kWaiting;
  if (waiting_.empty()) {
    const TableLock outer(queues_mutex);
    busy.remove(comm_);
    busy.push_back(comm_);
  }
  waiting_.push_back(op);
  n_waiting_.store_relaxed(static_cast<uint32_t>(waiting_.size()));
  n_waiting.fetch_add_relaxed(1);
  return true;
}

bool WildcardQueue::remove(Operation* op) {
  const auto it = std::find(waiting_.begin(), waiting_.end(), op);
  if (it == waiting_.end()) return false;
  waiting_.erase(it);
  n_waiting_.store_relaxed(static_cast<uint32_t>(waiting_.size()));
  n_waiting.fetch_add_relaxed(~uint32_t{0});
  return true;
}

int WildcardQueue::improbe(int source, int tag, int* flag, MPI_Message* message, MPI_Status* status) {
  const TableLock lock(
      comm_->wild_mutex);  // or a receive that is added now sees a message that is gone when it takes it
  *flag = 0;
  MPI_Status seen;
  const int error = host.Iprobe(source, tag, comm_->handle, flag, &seen);
  if (error != MPI_SUCCESS || *flag == 0) return error;
  if (first_match(seen.MPI_SOURCE, seen.MPI_TAG) != nullptr) {
    *flag = 0;
    return MPI_SUCCESS;
  }
  return host.Improbe(seen.MPI_SOURCE, seen.MPI_TAG, comm_->handle, flag, message, status);
}

bool WildcardQueue::offer(Operation* op) {
  MPI_Status status;
  int flag = 0;
  if (host.Iprobe(op->source, op->tag, comm_->handle, &flag, &status) != MPI_SUCCESS || flag == 0) return false;
  const int source = status.MPI_SOURCE;
  // The message goes to the first receive that it matches, and of that source the first message that this one matches.
  Operation* owner = first_match(source, status.MPI_TAG);
  for (;;) {
    flag = 0;
    if (host.Iprobe(source, owner->tag, comm_->handle, &flag, &status) != MPI_SUCCESS || flag == 0) return false;
    Operation* earlier = first_match(source, status.MPI_TAG);
    if (earlier == owner) break;
    owner = earlier;
  }
  if (owner->engine != nullptr) {
    if (!shim.rank->cancel(owner->engine)) {  // the engine has matched it: it is the engine's
      remove(owner);
      owner->state = Operation::State::kEngine;
      return true;
    }
    while (!shim.rank->done(owner->engine)) shim.rank->progress();  // not wait(): that comes back here
    shim.rank->release(owner->engine);
    owner->engine = nullptr;
  }
  // The first message of that source and tag is the one seen: receives posted in the host earlier would have taken it.
  // Not Improbe and Imrecv: Intel MPI 2021 never frees a communicator between machines that a message came over so.
  post(owner, source, status.MPI_TAG, comm_->handle);
  remove(owner);
  owner->state = Operation::State::kHost;
  return true;
}

void WildcardQueue::post_unblocked() {
  for (auto it = waiting_.begin(); it != waiting_.end();) {
    Operation* op = *it++;
    if (op->engine != nullptr || op->source == MPI_ANY_SOURCE || blocked(op)) continue;
    post(op, op->source, op->tag, comm_->handle);
    remove(op);
    op->state = Operation::State::kHost;
  }
}

void WildcardQueue::advance() {
  const TableLock lock(comm_->wild_mutex);
  for (auto it = waiting_.begin(); it != waiting_.end();) {
    Operation* op = *it++;
    if (op->engine != nullptr && shim.rank->done(op->engine)) {
      remove(op);
      op->state = Operation::State::kEngine;
    }
  }
  constexpr int kOffers = 8;  // host calls in one go
  int offers = 0;
  for (auto it = waiting_.begin(); it != waiting_.end() && offers < kOffers; ++offers) {
    if (offer(*it)) {
      it = waiting_.begin();
    } else {
      ++it;
    }
  }
  post_unblocked();
}

void advance_wildcards() {
  if (n_waiting.load_relaxed() == 0) return;
  std::list<CommInfo*> now;
  {
    const TableLock lock(queues_mutex);
    busy.remove_if([](CommInfo* comm) { return comm->wild->empty(); });
    now = busy;
  }
  for (CommInfo* comm : now) comm->wild->advance();
}

}  // namespace zh::mpi
