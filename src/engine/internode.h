// Internode: messages of schedules between ranks of different nodes, through a Carrier (the host MPI). One per Rank,
// for all communicators: each message brings its context along, so no communicator of the host's is needed per
// communicator of the program. Called by SpanTransport (below) and the progress loop; refuses to know collectives.
#pragma once

#include <array>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "base/atomic.h"
#include "base/optional_lock.h"
#include "base/status.h"
#include "engine/carrier.h"
#include "engine/direct_tags.h"
#include "engine/run_transport.h"

namespace zh::engine {

/// Whether a tag is one of the call with that first tag.
inline bool is_of_call(int32_t first_tag, int32_t tag) {
  return tag >= first_tag && tag - first_tag < static_cast<int32_t>(coll::kTags);
}

class Internode {
 public:
  struct Stats {
    uint64_t messages = 0;  ///< sent
    uint64_t bytes = 0;     ///< of them, without what describes them
  };

  /// Longer messages bring their bytes in a message of the host's of their own, into their place. Up to here a copy at
  /// both ends is cheaper than that. What nobody has asked for yet is kept.
  static constexpr uint64_t kInlineBytes = 16 << 10;

  /// `threaded`: calls come from several threads.
  Internode(std::unique_ptr<Carrier> carrier, bool threaded);
  /// All messages must have been received by their peers, or have been given up.
  ~Internode();
  Internode(const Internode&) = delete;
  Internode& operator=(const Internode&) = delete;

  // As coll::Transport (coll/schedule/run.h) has it; `rank` is one of the world's, and messages with equal rank,
  // context and tag match in the order of their starts. `in_order`: they are of calls that block, as
  // Transport::begin_blocking() has it, and so need no announcement.
  Code send(int32_t rank, uint64_t context, int32_t tag, const void* data, uint64_t bytes, bool in_order,
            void** handle);
  Code receive(int32_t rank, uint64_t context, int32_t tag, void* data, uint64_t bytes, bool in_order, void** handle);
  bool test(void* handle, Code* code);
  void abandon(void* handle);

  /// A call with these tags has stood still for long: its two ends may disagree on what is long. So direct messages
  /// that nobody has taken are announced, and receives of whatever length take direct ones.
  void stands_still(uint64_t context, int32_t first_tag);

  // Calls that ranks give up, by the numbers of their context. Senders of much wait until somebody takes it.

  /// Messages of that context with tags [first_tag, first_tag + coll::kTags) are let go as they come, until a receive
  /// asks for one of these tags again.
  void let_go_of(uint64_t context, int32_t first_tag);
  /// Tells a rank that this one has given that call up; with kDeaths for the context, that rank `number` of the world
  /// has died.
  static constexpr uint64_t kDeaths = ~uint64_t{0};
  void tell_given_up(int32_t rank, uint64_t context, uint64_t number);
  /// Whether another rank has told that.
  [[nodiscard]] bool was_given_up(uint64_t context, uint64_t number);
  /// Whether another rank has told of the death of any of these.
  [[nodiscard]] bool any_dead(std::span<const int32_t> world_ranks);
  /// Whether messages may have to be let go, by progress(). For any thread.
  [[nodiscard]] bool lets_go() const { return letting_go_.load_relaxed() != 0; }

  /// Takes what has arrived and lets go of what was sent.
  void progress();
  [[nodiscard]] Stats stats() const { return stats_; }

 private:
  enum class Kind : int32_t {
    kMessage,
    kDirect,  ///< a direct message, announced after all
    kRange,   ///< of direct messages of that context: data_tag is its first tag, or 0 when it is used no more
    kGivenUp,
  };
  /// Precedes the payload, which follows at once if it is short, else as a message of its own under `data_tag`.
  struct Header {
    uint64_t context;
    uint64_t bytes;  ///< kGivenUp: the number of the call
    int32_t source;
    int32_t tag;
    int32_t data_tag;
    Kind kind;
    uint64_t behind;  ///< 1: a direct message with its key was started before it in its call
  };
  static constexpr uint64_t kFrameBytes = sizeof(Header) + kInlineBytes;
  static constexpr int32_t kHeaderTag = 0;
  static constexpr size_t kFrames = 8;

  using Key = std::tuple<int32_t, uint64_t, int32_t>;  ///< source, context, tag
  struct Frame {
    alignas(64) std::byte bytes[kFrameBytes];
  };
  /// A started send or receive that could not end at once.
  struct Pending {
    Key key;  ///< of a send, with the receiver's rank
    Carrier::Request request = 0;
    bool sends = false;
    bool in_order = false;  ///< a receive that a direct message may be for
    bool posted = false;    ///< it waits in posted_
    bool carried = false;   ///< `request` is under way, also beside the other
    bool direct = false;    ///< ... as a direct message
    bool told = false;      ///< it has been announced after all
    bool done = false;
    Code code = Code::kOk;
    std::byte* data = nullptr;
    uint64_t bytes = 0;
    int32_t data_tag = 0;                ///< of a direct send
    std::unique_ptr<std::byte[]> spill;  ///< what is too long for `data`
    std::multimap<Key, Pending*>::iterator place;
  };
  /// A message that nobody has asked for yet.
  struct Arrived {
    Header header;
    std::unique_ptr<std::byte[]> payload;
  };
  struct Sent {
    Carrier::Request request;
    std::unique_ptr<std::byte[]> frame;
  };

  [[nodiscard]] bool is_let_go(uint64_t context, int32_t tag) const;
  void let_go_of_message(const Header& header);
  void take_arrived();
  void take(const Header& header, const std::byte* payload);
  void hand_over(const Header& header, const std::byte* payload, Pending* to);
  void deliver(const Header& header, const std::byte* payload, Pending* to);
  /// The message in arrived_ that is the next one with that key, if it is there.
  std::multimap<Key, Arrived>::iterator next_arrived(const Key& key);
  void settle(const Key& key);
  void unpost(Pending* pending);
  void post(size_t frame);
  void let_go();
  int32_t next_data_tag(int32_t rank);
  void send_frame(int32_t rank, const Header& header, const void* payload, uint64_t bytes);

  // Direct messages (internode_direct.cpp).
  DirectTags::Range* range_to(int32_t rank, uint64_t context);
  /// The range of what comes with that key. Null: its sender has none.
  DirectTags::Range* range_of(const Key& key) { return direct_tags_.from(std::get<0>(key), std::get<1>(key)); }
  [[nodiscard]] bool is_next(const Header& header, const Key& key);
  void make_room(const Key& key);  ///< before pass(), which needs no memory then
  void pass(const Key& key);
  void send_directly(DirectTags::Range* range, const Key& key, const void* data, uint64_t bytes, void** handle);
  void receive_directly(const DirectTags::Range& range, Pending* pending);
  void end_direct_receive(Pending* pending, const Carrier::Arrival& arrival);
  void take_back_receive(Pending* pending);
  void tell_range(int32_t rank, uint64_t context, DirectTags::Range* range);
  void take_range(const Header& header);
  void announce(Pending* send);
  void stop_direct(int32_t rank, uint64_t context);

  std::unique_ptr<Carrier> carrier_;
  std::array<Frame, kFrames> frames_;  ///< receives from anybody, posted in turn
  std::array<Carrier::Request, kFrames> receives_{};
  size_t next_frame_ = 0;       ///< the one that was posted first
  bool frame_is_full_ = false;  ///< that one has been received and not been taken
  std::multimap<Key, Pending*> posted_;
  std::multimap<Key, Arrived> arrived_;
  std::deque<Sent> sent_;
  std::vector<std::pair<uint64_t, int32_t>> let_go_;  ///< context, first tag
  std::vector<Sent> unwanted_;                        ///< payloads that are let go, under way
  std::set<std::pair<uint64_t, uint64_t>> given_up_;  ///< context, number; those of kDeaths are last
  Atomic<uint32_t> letting_go_{0};                    ///< let_go_ or unwanted_ has any
  std::map<int32_t, int32_t> data_tags_;              ///< the last one used for an announced message, by rank
  DirectTags direct_tags_;
  std::vector<Pending*> direct_sends_;  ///< that are under way
  Stats stats_;
  bool threaded_;
  std::mutex mutex_;
};

/// Messages of schedules on a communicator that spans nodes.
class SpanTransport final : public coll::Transport {
 public:
  /// `members`: as in RunTransport; `world`: world ranks, by rank of the communicator.
  SpanTransport(Rank& rank, Internode& internode, uint64_t context, RankList members, RankList world, uint32_t self)
      : inside_(rank, context, members, self),
        internode_(internode),
        context_(context),
        members_(std::move(members)),
        world_(std::move(world)) {}

  Code send(uint32_t rank, int32_t tag, const void* data, uint64_t bytes, void** handle) override;
  Code receive(uint32_t rank, int32_t tag, void* data, uint64_t bytes, void** handle) override;
  bool test(void* handle, Code* code) override;
  void abandon(void* handle) override;
  void begin_blocking(int32_t first_tag) override { blocking_ = first_tag; }
  void stands_still(int32_t first_tag) override { internode_.stands_still(context_, first_tag); }
  void announce(uint64_t number, uint32_t digest) override { inside_.announce(number, digest); }
  [[nodiscard]] bool contradicted(uint64_t number, uint32_t digest) const override {
    return inside_.contradicted(number, digest) || internode_.was_given_up(context_, number);
  }
  void give_up(uint64_t number, int32_t first_tag) override;
  [[nodiscard]] bool bereft() const override { return inside_.bereft() || internode_.any_dead(world_.ranks); }

 private:
  [[nodiscard]] bool blocks(int32_t tag) const;

  RunTransport inside_;
  Internode& internode_;
  uint64_t context_;
  RankList members_;
  RankList world_;
  int32_t blocking_ = -1;  ///< first tag of the newest call that blocks
};

}  // namespace zh::engine
