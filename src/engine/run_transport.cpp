#include "engine/run_transport.h"

#include <algorithm>

#include "p2p/request.h"

namespace zh::engine {
namespace {

Code code_of(const Result& result, uint64_t asked) {
  if (result.code != Code::kOk || result.bytes >= asked) return result.code;
  return result.bytes == 0 ? Code::kIo : Code::kInvalid;
}

}  // namespace

Code RunTransport::send(uint32_t rank, int32_t tag, const void* data, uint64_t bytes, void** handle) {
  const copy::Buffer buffer{static_cast<std::byte*>(const_cast<void*>(data)), bytes, nullptr};
  const SendArgs args{static_cast<uint32_t>(members_[rank]), static_cast<int32_t>(self_), tag, context_, buffer};
  rank_.count_collective_message(bytes);
  return begun(rank_.isend(args), handle);
}

Code RunTransport::receive(uint32_t rank, int32_t tag, void* data, uint64_t bytes, void** handle) {
  const copy::Buffer buffer{static_cast<std::byte*>(data), bytes, nullptr};
  const RecvArgs args{members_[rank], static_cast<int32_t>(rank), tag, context_, buffer};
  return begun(rank_.irecv(args), handle);
}

Code RunTransport::begun(Request* request, void** handle) {
  *handle = request;
  if (request == nullptr) return Code::kNoMemory;
  Code code = Code::kOk;
  if (test(request, &code)) *handle = nullptr;
  return code;
}

bool RunTransport::test(void* handle, Code* code) {
  auto* request = static_cast<Request*>(handle);
  if (!rank_.done(request)) return false;
  const Result& result = rank_.result(request);
  *code = request->is_send ? result.code : code_of(result, request->buffer.bytes);
  rank_.release(request);
  return true;
}

// Turns the engine alone: whoever advances runs while it waits must not be asked to do so from within a run.
void RunTransport::abandon(void* handle) {
  auto* request = static_cast<Request*>(handle);
  rank_.cancel(request);
  while (!rank_.done(request)) rank_.progress();
  rank_.release(request);
}

void RunTransport::announce(uint64_t number, uint32_t digest) { rank_.announce_call(context_, number, digest); }

bool RunTransport::contradicted(uint64_t number, uint32_t digest) const {
  return std::ranges::any_of(members_.ranks, [&](int32_t member) {
    return member >= 0 && rank_.call_contradicted(static_cast<uint32_t>(member), context_, number, digest);
  });
}

bool RunTransport::bereft() const {
  for (uint32_t rank = 0; rank < members_.ranks.size(); ++rank) {
    if (is_dead(rank)) return true;
  }
  return false;
}

bool RunTransport::is_dead(uint32_t rank) const {
  return members_[rank] >= 0 && rank_.node().ended(static_cast<uint32_t>(members_[rank]));
}

}  // namespace zh::engine
