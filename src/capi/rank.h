// What the handles of include/zerohop/zerohop.h stand for. Shared by the files of this folder.
#pragma once

#include <cerrno>
#include <memory>
#include <mutex>

#include "base/atomic.h"
#include "coll/algorithms/precedence.h"
#include "coll/team/team.h"
#include "copy/layout.h"
#include "engine/collective_call.h"
#include "engine/rank.h"
#include "node/node.h"
#include "zerohop/zerohop.h"

namespace zh::capi {

int to_errno(Code code);

class JobBootstrap final : public node::Bootstrap {
 public:
  explicit JobBootstrap(const zh_job& job) : job_(job) {}
  [[nodiscard]] int rank() const override { return job_.rank; }
  [[nodiscard]] int size() const override { return job_.size; }
  Status allgather(const void* in, size_t bytes, void* out) override {
    const int error = job_.allgather(job_.user, in, bytes, out);
    return error == 0 ? kOk : Status{Code::kIo, "the job's allgather failed", -error};
  }

 private:
  zh_job job_;
};

/// A nonblocking collective. `spoilt` is its rank's (zh_rank).
class StartedCollective final : public engine::CollectiveCall {
 public:
  StartedCollective(std::shared_ptr<engine::Collectives> of, Atomic<uint32_t>& spoilt)
      : CollectiveCall(std::move(of), Kind::kNonblocking), spoilt_(spoilt) {}
  ~StartedCollective() override { stop(); }
  [[nodiscard]] Code code() const { return code_; }

 private:
  void end(Code code) override {
    code_ = code;
    if (code != Code::kOk) spoilt_.store_relaxed(1);
  }
  Atomic<uint32_t>& spoilt_;
  Code code_ = Code::kOk;
};

}  // namespace zh::capi

struct zh_request {
  zh::engine::Request* request = nullptr;  ///< of a message; else:
  std::unique_ptr<zh::capi::StartedCollective> call;
  zh::copy::OwnedLayout layout;
};

struct zh_message {
  zh::engine::Message* message = nullptr;
};

struct zh_rank {
  std::unique_ptr<zh::capi::JobBootstrap> job;
  std::unique_ptr<zh::node::Node> node;
  std::unique_ptr<zh::engine::Rank> rank;
  // Of collectives, made at the first:
  std::mutex collectives_mutex;
  std::unique_ptr<zh::coll::Team> team;
  zh::coll::Precedence precedence;
  std::shared_ptr<zh::engine::Collectives> collectives;
  zh::Atomic<uint32_t> spoilt{0};  ///< 1: one has ended with an error, so that its messages may never arrive
};
