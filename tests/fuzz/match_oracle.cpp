// See match_oracle.h. Messages of one source, destination, context and tag are received in the order of sending by
// receives in the order of posting (any receive that accepts one accepts all), so results name their messages without
// a look at the bytes. What is left is the order across tags and sources: each match, and each cancel, is an event in a
// span of time; the rules say which must come before which; an order exists if the rules make no circle and every event
// fits into its span.
#include "match_oracle.h"

#include <algorithm>
#include <deque>
#include <map>
#include <tuple>

namespace zh::test {
namespace {

std::string name(const SentMessage& m, size_t i) {
  return "send " + std::to_string(i) + " (" + std::to_string(m.source) + " to " + std::to_string(m.dest) +
         ", context " + std::to_string(m.context) + ", tag " + std::to_string(m.tag) + ", " + std::to_string(m.bytes) +
         " bytes)";
}

std::string name(const PostedReceive& r, size_t i) {
  return "receive " + std::to_string(i) + " (of rank " + std::to_string(r.rank) + ", context " +
         std::to_string(r.context) + ", source " + std::to_string(r.want_source) + ", tag " +
         std::to_string(r.want_tag) + ")";
}

class Judge {
 public:
  explicit Judge(const History& h) : h_(h), message_of_(h.receives.size(), -1), receive_of_(h.sends.size(), -1) {}

  std::string run(std::vector<int>* message_of) {
    std::string wrong = pair();
    if (wrong.empty()) wrong = order();
    *message_of = message_of_;
    return wrong;
  }

 private:
  using Class = std::tuple<uint32_t, uint32_t, uint32_t, int32_t>;  // source, dest, context, tag
  static Class class_of(const SentMessage& m) { return {m.source, m.dest, m.context, m.tag}; }

  std::string pair() {
    std::map<Class, std::deque<size_t>> waiting;
    std::map<Class, bool> some_cancelled;
    for (size_t i = 0; i < h_.sends.size(); ++i) {
      const Class c = class_of(h_.sends[i]);
      if (h_.sends[i].cancelled) {
        some_cancelled[c] = true;
      } else {
        waiting[c].push_back(i);
      }
    }
    for (size_t i = 0; i < h_.receives.size(); ++i) {
      const PostedReceive& r = h_.receives[i];
      if (r.cancelled) continue;
      const Class c{static_cast<uint32_t>(r.source), r.rank, r.context, r.tag};
      auto& queue = waiting[c];
      const std::string who = name(r, i);
      if (queue.empty()) return who + " got a message that was not sent, or twice: tag " + std::to_string(r.tag);
      const SentMessage& m = h_.sends[queue.front()];
      if (!r.accepts(m)) return who + " got what it does not accept: " + name(m, queue.front());
      if (r.bytes != std::min(m.bytes, r.capacity) || r.truncated != (m.bytes > r.capacity)) {
        return who + " got " + std::to_string(r.bytes) + " bytes of " + name(m, queue.front());
      }
      // A cancel may take the message between the probe and the receive.
      if (r.probed && r.probed_bytes != m.bytes && !some_cancelled[c]) {
        return who + ": the probe saw " + std::to_string(r.probed_bytes) + " bytes of " + name(m, queue.front());
      }
      message_of_[i] = static_cast<int>(queue.front());
      receive_of_[queue.front()] = static_cast<int>(i);
      queue.pop_front();
    }
    for (const auto& [c, queue] : waiting) {
      if (!queue.empty()) return "lost: " + name(h_.sends[queue.front()], queue.front());
    }
    return "";
  }

  // Events: receives first (matched or cancelled), then sends that were cancelled.
  [[nodiscard]] size_t event_of_send(size_t m) const {
    return receive_of_[m] >= 0 ? static_cast<size_t>(receive_of_[m]) : h_.receives.size() + m;
  }

  [[nodiscard]] Span span_of(size_t event) const {
    if (event >= h_.receives.size()) return h_.sends[event - h_.receives.size()].matched;
    Span span = h_.receives[event].matched;
    if (message_of_[event] >= 0) {
      const Span& sent = h_.sends[static_cast<size_t>(message_of_[event])].matched;
      span.from = std::max(span.from, sent.from);
      span.to = std::min(span.to, sent.to);
    }
    return span;
  }

  /// Events that must come before the match of receive r.
  [[nodiscard]] std::vector<size_t> before(size_t r) const {
    std::vector<size_t> events;
    if (message_of_[r] < 0) return events;
    const auto got = static_cast<size_t>(message_of_[r]);
    const SentMessage& m = h_.sends[got];
    for (size_t i = 0; i < r; ++i) {
      if (h_.receives[i].accepts(m)) events.push_back(i);
    }
    for (size_t i = 0; i < got; ++i) {
      if (h_.sends[i].source == m.source && h_.receives[r].accepts(h_.sends[i])) events.push_back(event_of_send(i));
    }
    return events;
  }

  std::string order() {
    const size_t n = h_.receives.size() + h_.sends.size();
    std::vector<std::vector<size_t>> after(n);
    std::vector<size_t> open(n);
    std::vector<uint64_t> earliest(n);
    for (size_t r = 0; r < h_.receives.size(); ++r) {
      for (const size_t e : before(r)) {
        after[e].push_back(r);
        ++open[r];
      }
    }
    std::deque<size_t> ready;
    for (size_t e = 0; e < n; ++e) {
      if (open[e] == 0) ready.push_back(e);
    }
    size_t done = 0;
    for (; !ready.empty(); ++done) {
      const size_t e = ready.front();
      ready.pop_front();
      const Span span = span_of(e);
      earliest[e] = std::max(earliest[e], span.from);
      if (earliest[e] > span.to) return "too late: " + describe(e);
      for (const size_t next : after[e]) {
        earliest[next] = std::max(earliest[next], earliest[e]);
        if (--open[next] == 0) ready.push_back(next);
      }
    }
    if (done == n) return "";
    for (size_t e = 0; e < n; ++e) {
      if (open[e] != 0) return "overtaken (each waits for another): " + describe(e);
    }
    return "";
  }

  [[nodiscard]] std::string describe(size_t event) const {
    if (event >= h_.receives.size()) {
      return name(h_.sends[event - h_.receives.size()], event - h_.receives.size()) + ", cancelled";
    }
    const int m = message_of_[event];
    return name(h_.receives[event], event) +
           (m < 0 ? ", cancelled" : " with " + name(h_.sends[static_cast<size_t>(m)], static_cast<size_t>(m)));
  }

  const History& h_;
  std::vector<int> message_of_;
  std::vector<int> receive_of_;
};

}  // namespace

std::string judge(const History& history, std::vector<int>* message_of) { return Judge(history).run(message_of); }

}  // namespace zh::test
