// See run_transport.h.
#include "engine/run_transport.h"

namespace zh::engine {

Code RunTransport::send(uint32_t rank, int32_t tag, const void* data, uint64_t bytes, void** handle) {
  SendArgs args;
  args.dest = static_cast<uint32_t>((*members_)[rank]);
  args.source = static_cast<int32_t>(self_);
  args.tag = tag;
  args.context = context_;
  args.data = {static_cast<std::byte*>(const_cast<void*>(data)), bytes, nullptr};
  *handle = nullptr;
  if (rank_.send_now(args)) return Code::kOk;
  *handle = rank_.isend(args);
  return *handle != nullptr ? Code::kOk : Code::kNoMemory;
}

Code RunTransport::receive(uint32_t rank, int32_t tag, void* data, uint64_t bytes, void** handle) {
  RecvArgs args;
  args.peer = (*members_)[rank];
  args.source = static_cast<int32_t>(rank);
  args.tag = tag;
  args.context = context_;
  args.buffer = {static_cast<std::byte*>(data), bytes, nullptr};
  Result result;
  Request* request = nullptr;
  *handle = nullptr;
  if (rank_.recv_or_start(args, &result, &request)) return result.code;
  *handle = request;
  return request != nullptr ? Code::kOk : Code::kNoMemory;
}

bool RunTransport::test(void* handle, Code* code) {
  auto* request = static_cast<Request*>(handle);
  if (!rank_.done(request)) return false;
  *code = rank_.result(request).code;
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

}  // namespace zh::engine
