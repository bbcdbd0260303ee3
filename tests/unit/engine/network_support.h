// A carrier between the threads of a test, which delays messages. Used by the tests of messages between nodes and of
// collectives that span them.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <list>
#include <memory>
#include <mutex>
#include <random>
#include <utility>
#include <vector>

#include "engine/carrier.h"

namespace zh::test {

/// Messages between the threads of a test. A send of more than kBuffered bytes completes when it has been received, as
/// hosts do it; nothing is there before it has been looked for a few times.
class Network {
 public:
  static constexpr uint64_t kBuffered = 8192;
  struct Message {
    int32_t from, to, tag;
    std::vector<std::byte> bytes;
    bool received = false;
  };
  std::mutex mutex;
  std::list<std::shared_ptr<Message>> messages;
  uint64_t sent = 0;       ///< messages so far
  int32_t tag_ub = 32767;  ///< what MPI asks for
};

class NetworkCarrier final : public engine::Carrier {
 public:
  NetworkCarrier(Network& network, int32_t self)
      : network_(network), self_(self), random_(static_cast<uint32_t>(self)) {}
  ~NetworkCarrier() override { EXPECT_TRUE(operations_.empty()) << "requests are left"; }
  [[nodiscard]] int32_t self() const override { return self_; }
  [[nodiscard]] int32_t tag_ub() const override { return network_.tag_ub; }

  Request send(int32_t rank, int32_t tag, const void* data, uint64_t bytes) override {
    const auto* from = static_cast<const std::byte*>(data);
    auto message = std::make_shared<Network::Message>(Network::Message{self_, rank, tag, {from, from + bytes}});
    const std::lock_guard lock(network_.mutex);
    network_.messages.push_back(message);
    ++network_.sent;
    return add({message, nullptr, 0, 0, 0});
  }
  Request receive(int32_t rank, int32_t tag, void* data, uint64_t bytes) override {
    return add({nullptr, static_cast<std::byte*>(data), bytes, rank, tag});
  }
  bool test(Request* request, Arrival* arrival) override {
    if (random_() % 3 != 0) return false;
    const std::lock_guard lock(network_.mutex);
    for (Operation& operation : operations_) advance(operation);
    const auto found = find(*request);
    if (!found->done) return false;
    if (arrival != nullptr) *arrival = found->arrival;
    operations_.erase(found);
    return true;
  }
  bool cancel(Request* request, Arrival* arrival) override {
    const std::lock_guard lock(network_.mutex);
    for (Operation& operation : operations_) advance(operation);
    const auto found = find(*request);
    const bool cancelled = !found->done;
    if (!cancelled && arrival != nullptr) *arrival = found->arrival;
    operations_.erase(found);
    return cancelled;
  }

 private:
  struct Operation {
    std::shared_ptr<Network::Message> message;  ///< of a send
    std::byte* data;
    uint64_t bytes;
    int32_t from, tag;
    Request number = 0;
    bool done = false;
    Arrival arrival = {};
  };
  using Place = std::list<Operation>::iterator;

  Request add(Operation operation) {
    operation.number = ++last_;
    operations_.push_back(std::move(operation));
    return last_;
  }
  Place find(Request request) {
    return std::find_if(operations_.begin(), operations_.end(),
                        [&](const Operation& o) { return o.number == request; });
  }
  /// In the order of their starts: a message goes to the first receive that it fits.
  void advance(Operation& o) {
    if (o.done) return;
    if (o.message != nullptr) {
      o.done = o.message->bytes.size() <= Network::kBuffered || o.message->received;
      return;
    }
    const auto fits = [&](const std::shared_ptr<Network::Message>& m) {
      return m->to == self_ && o.tag == m->tag && (o.from == kAnyRank || o.from == m->from);
    };
    const auto m = std::find_if(network_.messages.begin(), network_.messages.end(), fits);
    if (m == network_.messages.end()) return;
    o.arrival = {std::min<uint64_t>((*m)->bytes.size(), o.bytes), (*m)->bytes.size() > o.bytes};
    if (o.arrival.bytes > 0) std::memcpy(o.data, (*m)->bytes.data(), o.arrival.bytes);
    (*m)->received = true;
    network_.messages.erase(m);
    o.done = true;
  }

  Network& network_;
  int32_t self_;
  std::minstd_rand random_;
  std::list<Operation> operations_;
  Request last_ = 0;
};

}  // namespace zh::test
