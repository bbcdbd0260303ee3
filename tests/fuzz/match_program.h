// A program of the matching fuzzer: what some ranks do, in one order. Drawn from a seed, written and read as text (the
// corpus, and what a failure prints). It refuses to know how it is run.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace zh::test {

enum class Act : uint8_t {
  kSend,         ///< to peer
  kSynchronous,  ///< the same, ends when it is received
  kBuffered,     ///< a send that nobody waits for
  kSendNow,      ///< a send that needs no request, else kSend
  kRecv,         ///< from peer (-1: any) with tag (-1: any), room for `bytes`
  kRecvNow,      ///< the same, at once if the message is there
  kProbe,        ///< probes so, and receives what it saw
  kMprobe,       ///< takes the message out of matching
  kMrecv,        ///< receives the oldest message taken so
  kCancelSend,   ///< the send number `tag` of those that are active
  kCancelRecv,   ///< the receive of that number
  kPoll,         ///< progress, and collects what is complete
  kHost,         ///< sits in a call of the host until its next act
  kActs
};

struct Op {
  Act act = Act::kPoll;
  uint32_t rank = 0;
  int32_t peer = 0;
  int32_t tag = 0;
  uint32_t context = 0;
  uint64_t bytes = 0;
  bool strided = false;
};

struct Program {
  uint32_t ranks = 2;
  bool threads = false;  ///< a thread for each rank; else one thread runs all acts in their order
  bool cma = true;
  int skew = 1;
  uint64_t single_copy_min = 0;
  uint64_t rank_bytes = 8 << 20;
  std::vector<Op> ops;
};
constexpr uint32_t kContexts = 3;

[[nodiscard]] Program random_program(uint64_t seed);
/// One line of settings, then one for each act.
[[nodiscard]] std::string to_text(const Program& program);
/// False if it is no program.
[[nodiscard]] bool read_program(const std::string& text, Program* out);

/// A smaller program for which `fails` still holds, by leaving out and simplifying for at most `seconds`.
[[nodiscard]] Program minimised(Program program, const std::function<bool(const Program&)>& fails, uint64_t seconds);

}  // namespace zh::test
