// include/zerohop/zerohop.h over engine::Rank: sources are the job's rank numbers. Collectives are in collectives.cpp.
#include "capi/rank.h"

#include <cstdlib>
#include <cstring>
#include <vector>

#include "engine/active_collectives.h"
#include "shm/arena.h"

using namespace zh;
using capi::to_errno;

int capi::to_errno(Code code) {
  switch (code) {
    case Code::kOk:
      return 0;
    case Code::kNoMemory:
      return -ENOMEM;
    case Code::kNotPermitted:
      return -EPERM;
    case Code::kNotSupported:
      return -ENOSYS;
    case Code::kTruncated:
      return -EMSGSIZE;
    case Code::kPeerDead:
      return -EOWNERDEAD;
    case Code::kWouldBlock:
      return -EAGAIN;
    case Code::kInvalid:
      return -EINVAL;
    case Code::kIo:
      return -EIO;
  }
  return -EIO;
}

namespace {

/// One buffer out of pieces; more than one become a layout relative to the first.
int gather_pieces(const iovec* pieces, int count, copy::Buffer* out, copy::OwnedLayout* layout) {
  if (count < 0 || (count > 0 && pieces == nullptr)) return -EINVAL;
  *out = copy::Buffer{};
  if (count == 0) return 0;
  out->base = static_cast<std::byte*>(pieces[0].iov_base);
  out->bytes = pieces[0].iov_len;
  if (count == 1) return 0;
  std::vector<copy::Block> blocks;
  blocks.reserve(static_cast<size_t>(count));
  out->bytes = 0;
  for (int i = 0; i < count; ++i) {
    if (pieces[i].iov_len == 0) continue;
    const auto offset = static_cast<int64_t>(reinterpret_cast<intptr_t>(pieces[i].iov_base) -
                                             reinterpret_cast<intptr_t>(pieces[0].iov_base));
    blocks.push_back({offset, pieces[i].iov_len});
    out->bytes += pieces[i].iov_len;
  }
  if (blocks.empty()) return 0;
  *layout = copy::make_layout(blocks, 0);
  if (!*layout) return -ENOMEM;
  out->layout = layout->get();
  return 0;
}

void fill(zh_status* status, const engine::Result& result) {
  if (status == nullptr) return;
  *status = {result.source, result.tag, result.bytes, to_errno(result.code), result.cancelled ? 1 : 0};
}

int start(engine::Request* request, copy::OwnedLayout layout, zh_request** out) {
  if (request == nullptr) return -ENOMEM;
  *out = new (std::nothrow) zh_request{request, nullptr, std::move(layout)};
  return *out != nullptr ? 0 : -ENOMEM;
}

int send(zh_rank* self, int dest, int tag, uint64_t context, const iovec* pieces, int count, p2p::SendMode mode,
         zh_request** out) {
  if (tag < 0 || zh_reachable(self, dest) == 0) return -EINVAL;
  copy::OwnedLayout layout;
  engine::SendArgs args;
  if (const int error = gather_pieces(pieces, count, &args.data, &layout); error != 0) return error;
  args.dest = static_cast<uint32_t>(self->node->local_index(dest));
  args.source = self->job->rank();
  args.tag = tag;
  args.context = context;
  args.mode = mode;
  return start(self->rank->isend(args), std::move(layout), out);
}

/// Fills who and what; -EINVAL if the source is not on this node.
int select(const zh_rank* self, int source, int tag, uint64_t context, engine::RecvArgs* args) {
  if (source != ZH_ANY_SOURCE && zh_reachable(self, source) == 0) return -EINVAL;
  if (tag < ZH_ANY_TAG) return -EINVAL;
  args->peer = source == ZH_ANY_SOURCE ? p2p::kAnyPeer : self->node->local_index(source);
  args->source = source;
  args->tag = tag;
  args->context = context;
  return 0;
}

}  // namespace

extern "C" {

const char* zh_version(void) { return ZH_VERSION_STRING; }

int zh_open(const zh_job* job, zh_rank** out) {
  if (job == nullptr || out == nullptr || job->allgather == nullptr || job->rank < 0 || job->rank >= job->size) {
    return -EINVAL;
  }
  std::unique_ptr<zh_rank> self(new (std::nothrow) zh_rank);
  if (!self) return -ENOMEM;
  self->job = std::make_unique<capi::JobBootstrap>(*job);
  node::JoinConfig node_config;
  if (job->memory_bytes != 0) node_config.rank_bytes = shm::Arena::part_bytes(round_up(job->memory_bytes, 4096));
  Status status = node::Node::join(*self->job, node_config, &self->node);
  if (!status.ok()) return to_errno(status.code());
  status = engine::Rank::create(*self->node, *self->job, engine::Config{}, &self->rank);
  if (!status.ok()) return to_errno(status.code());
  engine::Rank* const rank = self->rank.get();
  rank->set_host_progress([rank] { rank->active_collectives()->advance(); });
  *out = self.release();
  return 0;
}

// A peer may still be receiving what this rank has sent: all must be done before anyone leaves. What is left then of
// collectives that ended with errors nobody will receive.
int zh_close(zh_rank* self) {
  if (self->collectives != nullptr) self->rank->active_collectives()->finish(*self->collectives);
  uint64_t sound = self->spoilt.load_relaxed() != 0 ? 0 : 1;
  if (sound != 0) self->rank->quiesce();
  Status status = self->job->least({&sound, 1});
  if (status.ok() && sound == 0) {
    self->rank->take_back_sends();
    self->rank->quiesce();
    status = self->job->least({&sound, 1});
  }
  delete self;
  return to_errno(status.code());
}

int zh_reachable(const zh_rank* self, int rank) {
  return rank >= 0 && rank < self->job->size() && self->node->local_index(rank) >= 0 ? 1 : 0;
}

void zh_enable_threads(zh_rank* self) { self->rank->enable_threads(); }

int zh_isend(zh_rank* self, int dest, int tag, uint64_t context, const struct iovec* pieces, int count,
             zh_request** out) {
  return send(self, dest, tag, context, pieces, count, p2p::SendMode::kStandard, out);
}

int zh_issend(zh_rank* self, int dest, int tag, uint64_t context, const struct iovec* pieces, int count,
              zh_request** out) {
  return send(self, dest, tag, context, pieces, count, p2p::SendMode::kSynchronous, out);
}

int zh_irecv(zh_rank* self, int source, int tag, uint64_t context, const struct iovec* pieces, int count,
             zh_request** out) {
  engine::RecvArgs args;
  copy::OwnedLayout layout;
  if (const int error = select(self, source, tag, context, &args); error != 0) return error;
  if (const int error = gather_pieces(pieces, count, &args.buffer, &layout); error != 0) return error;
  return start(self->rank->irecv(args), std::move(layout), out);
}

int zh_test(zh_rank* self, zh_request* request, zh_status* status) {
  if (request->call != nullptr) {
    self->rank->progress();
    if (!request->call->look()) return 0;
    if (status != nullptr) *status = {-1, -1, 0, to_errno(request->call->code()), 0};
    delete request;
    return 1;
  }
  if (!self->rank->test(request->request)) return 0;
  fill(status, self->rank->result(request->request));
  self->rank->release(request->request);
  delete request;
  return 1;
}

int zh_wait(zh_rank* self, zh_request* request, zh_status* status) {
  if (request->call != nullptr) {
    request->call->look_for_long();
    request->call->finish();
  } else {
    self->rank->wait(request->request);
  }
  zh_test(self, request, status);
  return 0;
}

int zh_cancel(zh_rank* self, zh_request* request) {
  return request->call == nullptr && self->rank->cancel(request->request) ? 1 : 0;
}

int zh_iprobe(zh_rank* self, int source, int tag, uint64_t context, zh_status* status) {
  engine::RecvArgs args;
  if (const int error = select(self, source, tag, context, &args); error != 0) return error;
  engine::Result result;
  if (!self->rank->iprobe(args, &result)) return 0;
  if (result.code != Code::kOk) return to_errno(result.code);
  fill(status, result);
  return 1;
}

int zh_improbe(zh_rank* self, int source, int tag, uint64_t context, zh_message** out, zh_status* status) {
  engine::RecvArgs args;
  if (const int error = select(self, source, tag, context, &args); error != 0) return error;
  std::unique_ptr<zh_message> message(new (std::nothrow) zh_message);
  if (!message) return -ENOMEM;
  engine::Result result;
  message->message = self->rank->improbe(args, &result);
  if (message->message == nullptr) return to_errno(result.code);
  fill(status, result);
  *out = message.release();
  return 1;
}

int zh_imrecv(zh_rank* self, zh_message* message, const struct iovec* pieces, int count, zh_request** out) {
  copy::Buffer buffer;
  copy::OwnedLayout layout;
  if (const int error = gather_pieces(pieces, count, &buffer, &layout); error != 0) return error;
  engine::Request* request = self->rank->imrecv(message->message, buffer);
  delete message;
  return start(request, std::move(layout), out);
}

int zh_progress(zh_rank* self) {
  self->rank->active_collectives()->advance();
  return self->rank->progress() ? 1 : 0;
}

char* zh_statistics(const zh_rank* self) { return strdup(self->rank->stats_json().c_str()); }

}  // extern "C"
