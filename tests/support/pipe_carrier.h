// What carries messages between nodes in tests whose ranks are processes: a pipe from each rank to each other one. A
// rank that has died sends nothing and takes nothing, and nobody is told, as under a host that waits for its launcher.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <list>
#include <utility>
#include <vector>

#include "engine/carrier.h"

namespace zh::test {

/// Made before the ranks are forked. Who dies leaves its ends open in the others, so that writing to it is no error.
class Pipes {
 public:
  explicit Pipes(int ranks) : ranks_(ranks), ends_(static_cast<size_t>(ranks) * static_cast<size_t>(ranks)) {
    for (Ends& ends : ends_) {
      int fds[2];
      if (pipe2(fds, O_NONBLOCK | O_CLOEXEC) != 0) std::abort();
      ends = {fds[0], fds[1]};
    }
  }
  ~Pipes() {
    for (const Ends& ends : ends_) {
      close(ends.read);
      close(ends.write);
    }
  }
  Pipes(const Pipes&) = delete;
  Pipes& operator=(const Pipes&) = delete;
  [[nodiscard]] int ranks() const { return ranks_; }
  [[nodiscard]] int to_read(int from, int to) const { return ends_[index(from, to)].read; }
  [[nodiscard]] int to_write(int from, int to) const { return ends_[index(from, to)].write; }

 private:
  struct Ends {
    int read, write;
  };
  [[nodiscard]] size_t index(int from, int to) const { return static_cast<size_t>(from * ranks_ + to); }
  int ranks_;
  std::vector<Ends> ends_;
};

class PipeCarrier final : public engine::Carrier {
 public:
  PipeCarrier(const Pipes& pipes, int self)
      : pipes_(pipes), self_(self), streams_(static_cast<size_t>(pipes.ranks())) {}
  [[nodiscard]] int32_t self() const override { return self_; }
  [[nodiscard]] int32_t tag_ub() const override { return 32767; }

  Request send(int32_t rank, int32_t tag, const void* data, uint64_t bytes) override {
    Operation& o = add({rank, tag, nullptr, bytes});
    const Header header{tag, bytes};
    o.frame.resize(sizeof header + bytes);
    std::memcpy(o.frame.data(), &header, sizeof header);
    if (bytes > 0) std::memcpy(o.frame.data() + sizeof header, data, bytes);
    write_all();  // as a host's call does: the rank may wait for its node before it asks about this message
    return o.number;
  }
  Request receive(int32_t rank, int32_t tag, void* data, uint64_t bytes) override {
    return add({rank, tag, static_cast<std::byte*>(data), bytes}).number;
  }
  bool test(Request* request, Arrival* arrival) override {
    write_all();
    for (int from = 0; from < pipes_.ranks(); ++from) read_from(from);
    match();
    const auto found = find(*request);
    if (!found->done) return false;
    if (arrival != nullptr) *arrival = found->arrival;
    operations_.erase(found);
    return true;
  }
  // Of a frame that has begun the rest has to follow.
  bool cancel(Request* request, Arrival* arrival) override {
    const auto found = find(*request);
    if (found->moved != 0 && !found->done) {
      while (!test(request, arrival)) continue;
      return false;
    }
    const bool cancelled = !found->done;
    if (!cancelled && arrival != nullptr) *arrival = found->arrival;
    operations_.erase(found);
    return cancelled;
  }

 private:
  struct Header {
    int32_t tag;
    uint64_t bytes;
  };
  struct Operation {
    int32_t rank, tag;
    std::byte* data;  ///< null: a send
    uint64_t bytes;
    std::vector<std::byte> frame = {};
    size_t moved = 0;
    Request number = 0;
    bool done = false;
    Arrival arrival = {};
  };
  struct Message {
    int32_t from, tag;
    std::vector<std::byte> bytes;
  };

  Operation& add(Operation operation) {
    operation.number = ++last_;
    return operations_.emplace_back(std::move(operation));
  }
  std::list<Operation>::iterator find(Request request) {
    return std::ranges::find_if(operations_, [&](const Operation& o) { return o.number == request; });
  }

  /// Frames of one pipe behind one another.
  void write_all() {
    std::vector<bool> full(streams_.size());
    for (Operation& o : operations_) {
      if (o.frame.empty() || o.done || full[static_cast<size_t>(o.rank)]) continue;
      const ssize_t n = write(pipes_.to_write(self_, o.rank), o.frame.data() + o.moved, o.frame.size() - o.moved);
      if (n > 0) o.moved += static_cast<size_t>(n);
      o.done = o.moved == o.frame.size();
      full[static_cast<size_t>(o.rank)] = !o.done;
    }
  }
  void read_from(int from) {
    std::vector<std::byte>& stream = streams_[static_cast<size_t>(from)];
    std::byte room[4096];
    for (ssize_t n = 0; (n = read(pipes_.to_read(from, self_), room, sizeof room)) > 0;) {
      stream.insert(stream.end(), room, room + n);
    }
    Header header{};
    while (stream.size() >= sizeof header) {
      std::memcpy(&header, stream.data(), sizeof header);
      const auto end = static_cast<ptrdiff_t>(sizeof header + header.bytes);
      if (static_cast<ptrdiff_t>(stream.size()) < end) return;
      messages_.push_back({from, header.tag, {stream.begin() + sizeof header, stream.begin() + end}});
      stream.erase(stream.begin(), stream.begin() + end);
    }
  }
  /// In the order of the receives: each takes the first message that fits.
  void match() {
    for (Operation& o : operations_) {
      if (!o.frame.empty() || o.done) continue;
      const auto m = std::ranges::find_if(messages_, [&](const Message& message) {
        return o.tag == message.tag && (o.rank == kAnyRank || o.rank == message.from);
      });
      if (m == messages_.end()) continue;
      o.arrival = {std::min<uint64_t>(m->bytes.size(), o.bytes), m->bytes.size() > o.bytes};
      if (o.arrival.bytes > 0) std::memcpy(o.data, m->bytes.data(), o.arrival.bytes);
      messages_.erase(m);
      o.done = true;
    }
  }

  const Pipes& pipes_;
  int32_t self_;
  std::vector<std::vector<std::byte>> streams_;  ///< by sender: what has been read and is no whole frame
  std::list<Operation> operations_;
  std::list<Message> messages_;
  Request last_ = 0;
};

}  // namespace zh::test
