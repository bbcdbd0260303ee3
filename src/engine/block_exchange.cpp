// See block_exchange.h.
#include "engine/block_exchange.h"

#include <utility>

#include "coll/algorithms/choose.h"

namespace zh::engine {

Status BlockExchange::begin(const Told& own) {
  coll::Problem problem;
  problem.collective = coll::Collective::kAllgather;
  problem.self = self_;
  problem.count = sizeof(Told);
  problem.layout = coll::Layout::one_node(static_cast<uint32_t>(told_.size()));
  coll::Schedule schedule;
  if (Status s = coll::build(problem, coll::default_algorithm(problem), &schedule); !s.ok()) return s;
  if (Status s = coll::Run::create(std::make_shared<const coll::Plan>(std::move(schedule)), transport_, &run_); !s.ok())
    return s;
  own_ = own;
  coll::Call buffers;
  buffers.input = &own_;
  buffers.output = told_.data();
  run_->start(buffers);
  return kOk;
}

bool BlockExchange::advance(bool dead, Code* code) {
  if (!run_->advance()) {
    if (!dead) return false;
    run_->fail(Code::kPeerDead);
  }
  *code = run_->code();
  run_.reset();
  return true;
}

std::vector<Offset> BlockExchange::blocks() const {
  std::vector<Offset> all;
  for (const Told& member : told_) {
    if (member.block == kNoOffset) return {};
    all.push_back(member.block);
  }
  return all;
}

}  // namespace zh::engine
