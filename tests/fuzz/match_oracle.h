// The oracle of the matching fuzzer: is there an order of matching that a simple list of receives and a simple list of
// messages would have made, and that gives what was seen? MPI standard 3.5: of the messages of one source the earliest
// that a receive accepts, of the receives the first posted that accepts a message. It knows nothing of the engine.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace zh::test {

/// When something happened: between two readings of one clock that all ranks share.
struct Span {
  uint64_t from = 0;
  uint64_t to = ~uint64_t{0};
};

struct SentMessage {
  uint32_t source = 0;
  uint32_t dest = 0;
  uint32_t context = 0;
  int32_t tag = 0;
  uint64_t bytes = 0;
  Span matched;  ///< from its start to the end of a synchronous send; to the cancel that worked
  bool cancelled = false;
};

struct PostedReceive {
  uint32_t rank = 0;
  uint32_t context = 0;
  int32_t want_source = -1;
  int32_t want_tag = -1;
  uint64_t capacity = 0;
  Span matched;  ///< from its start to when its end was seen; to the cancel that worked
  bool cancelled = false;
  // What came:
  int32_t source = -1;
  int32_t tag = -1;
  uint64_t bytes = 0;
  bool truncated = false;
  bool probed = false;
  uint64_t probed_bytes = 0;

  [[nodiscard]] bool accepts(const SentMessage& m) const {
    return rank == m.dest && context == m.context &&
           (want_source == -1 || want_source == static_cast<int32_t>(m.source)) &&
           (want_tag == -1 || want_tag == m.tag);
  }
};

/// Each rank's own in the order in which it made them; the ranks one after the other.
struct History {
  std::vector<SentMessage> sends;
  std::vector<PostedReceive> receives;
};

/// "" if the standard allows it, else what it does not. `message_of[i]`: the message that receive i got, or -1.
[[nodiscard]] std::string judge(const History& history, std::vector<int>* message_of);

}  // namespace zh::test
