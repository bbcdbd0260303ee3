// Collectives of neighbourhoods. A member says with its contribution who each of its blocks is for. Short blocks lie
// behind that table, long ones are messages. Nobody waits for a member that is no neighbour, but where its slots and
// its ring come round.
#include <algorithm>
#include <utility>

#include "coll/team/team_state.h"
#include "coll/types.h"

namespace zh::coll {

namespace {
/// A longer block is a message, which both ends copy.
constexpr uint64_t kLongestCopied = 8 << 10;
/// Of all blocks of a contribution, once the control blocks have grown.
constexpr uint64_t kMostCopied = 32 << 10;
constexpr uint64_t kUnit = 16;  // blocks begin at multiples of it
constexpr uint32_t kByMessage = ~uint32_t{0};
constexpr int32_t kNthShift = 24;  // above the number of the collective
static_assert(kMostEdges <= 1 << (30 - kNthShift));

uint64_t rounded(uint64_t bytes) { return (bytes + kUnit - 1) / kUnit * kUnit; }
}  // namespace

/// One call of one member.
struct Team::State::NeighborCall {
  State& s;
  const Blocks& send;
  const Blocks& recv;
  uint64_t longest;  ///< of blocks that are copied. Members that agree on a length agree on how it goes
  p2p::Request* sent[kMostEdges];
  p2p::Request* asked[kMostEdges];

  NeighborCall(State& state, const Blocks& out, const Blocks& in) : s(state), send(out), recv(in) {
    const uint64_t room = (s.facts.grown ? kMostCopied : s.facts.small()) - kMostEdges * sizeof(NeighborBlockShm);
    longest = std::min(kLongestCopied, room / std::max(s.most_edges, 1U) / kUnit * kUnit);
    std::fill_n(sent, send.members.size(), nullptr);
    std::fill_n(asked, recv.members.size(), nullptr);
  }

  [[nodiscard]] int32_t tag(uint32_t nth) const { return s.message_tag() | static_cast<int32_t>(nth) << kNthShift; }
  [[nodiscard]] bool is_own(const Blocks& side, uint32_t k) const { return side.members[k] == s.self; }

  /// Before they can come, so that both ends copy. False: without memory.
  bool ask() {
    for (uint32_t k = 0; k < recv.members.size(); ++k) {
      if (is_own(recv, k) || recv.pieces[k].bytes <= longest) continue;
      asked[k] = s.services.recv(s.members[recv.members[k]], s.context, tag(recv.nth[k]), recv.pieces[k]);
      if (asked[k] == nullptr) return false;
    }
    return true;
  }

  Code offer() {
    if (send.members.empty()) return Code::kOk;
    ContributionShm* mine = nullptr;
    if (const Code code = s.own_slot(&mine); code != Code::kOk) return code;
    const auto n = static_cast<uint32_t>(send.members.size());
    uint64_t bytes = n * sizeof(NeighborBlockShm);
    for (uint32_t k = 0; k < n; ++k) bytes += is_copied(k) && !is_shared(k) ? rounded(send.pieces[k].bytes) : 0;
    if (const Code code = s.claim_ring(bytes, mine); code != Code::kOk) return code;
    mine->way = ContributionWay::kBlocks;
    mine->bytes = bytes;
    mine->stride = n;
    std::byte* const start = s.rings_of[s.self] + mine->ring_at;
    if (!fill(start, s.store_of(bytes))) return Code::kNoMemory;
    s.publish();
    return Code::kOk;
  }

  bool fill(std::byte* start, copy::Store store) {
    auto* const table = reinterpret_cast<NeighborBlockShm*>(start);
    const auto n = static_cast<uint32_t>(send.members.size());
    uint64_t next = n * sizeof(NeighborBlockShm);
    for (uint32_t k = 0; k < n; ++k) {
      const copy::Buffer block = send.pieces[k];
      table[k] = {block.bytes, kByMessage, static_cast<uint16_t>(send.members[k]), send.nth[k]};
      if (is_own(send, k)) continue;
      if (!is_copied(k)) {
        sent[k] =
            s.services.send(s.members[send.members[k]], s.context, tag(send.nth[k]), block, p2p::SendMode::kStandard);
        if (sent[k] == nullptr) return false;
      } else if (is_shared(k)) {
        table[k].from = table[k - 1].from;
      } else {
        table[k].from = static_cast<uint32_t>(next);
        gather_bytes(start + next, block, block.bytes, store);
        next += rounded(block.bytes);
      }
    }
    return true;
  }

  [[nodiscard]] bool is_copied(uint32_t k) const { return !is_own(send, k) && send.pieces[k].bytes <= longest; }
  /// Whether a block is the one before, which all neighbours get.
  [[nodiscard]] bool is_shared(uint32_t k) const {
    return send.pieces.list == nullptr && send.pieces.stride == 0 && k > 0 && !is_own(send, k - 1);
  }

  void copy_own_blocks() {
    for (uint32_t k = 0; k < recv.members.size(); ++k) {
      if (!is_own(recv, k)) continue;
      for (uint32_t i = 0; i < send.members.size(); ++i) {
        if (!is_own(send, i) || send.nth[i] != recv.nth[k]) continue;
        s.fit(send.pieces[i].bytes, recv.pieces[k].bytes);  // too much is an error of this member alone
        copy_own(recv.pieces[k], send.pieces[i]);
      }
    }
  }

  /// The block of an edge in the contribution of a member that has come; null if there is none.
  [[nodiscard]] const NeighborBlockShm* find(uint32_t member, uint32_t nth) const {
    const ContributionShm& theirs = s.slot(member);
    if (theirs.way != ContributionWay::kBlocks) return nullptr;
    const auto* const table = reinterpret_cast<const NeighborBlockShm*>(s.contents(member));
    const auto* const end = table + theirs.stride;
    const auto* const found =
        std::find_if(table, end, [&](const NeighborBlockShm& b) { return b.member == s.self && b.nth == nth; });
    return found == end ? nullptr : found;
  }

  Code take(uint32_t k) {
    const uint32_t member = recv.members[k];
    const copy::Buffer to = recv.pieces[k];
    if (asked[k] != nullptr) {
      const ContributionShm& theirs = s.slot(member);
      auto settled = [&] {
        if (s.services.done(asked[k])) return true;
        if (theirs.seq.load_acquire() != s.seq) return false;  // CS1 <- CS0
        const NeighborBlockShm* const block = find(member, recv.nth[k]);
        return block == nullptr || block->from != kByMessage;
      };
      if (const Code code = s.turn_until(settled, member); code != Code::kOk) return code;
      p2p::Request* const message = std::exchange(asked[k], nullptr);
      if (s.services.done(message)) return s.finish(message, to.bytes);
      s.services.abandon(message);
    } else if (const Code code = s.await(member); code != Code::kOk) {
      return code;
    }
    const NeighborBlockShm* const block = find(member, recv.nth[k]);
    if (block == nullptr) {
      s.fail(Code::kInvalid);
    } else if (block->from == kByMessage) {
      const Code code =
          s.transfer(member, s.services.recv(s.members[member], s.context, tag(recv.nth[k]), to), to.bytes);
      if (code != Code::kNoMemory) return code;
      s.fail(code);
    } else {
      scatter_bytes(to, s.contents(member) + block->from, s.fit(block->bytes, to.bytes));
    }
    return Code::kOk;
  }

  Code exchange() {
    copy_own_blocks();
    for (uint32_t k = 0; k < recv.members.size(); ++k) {
      if (is_own(recv, k)) continue;
      if (const Code code = take(k); code != Code::kOk) return code;
    }
    for (uint32_t k = 0; k < send.members.size(); ++k) {
      if (sent[k] == nullptr) continue;
      const Code code = s.await_taken(send.members[k], std::exchange(sent[k], nullptr));
      if (code != Code::kOk) return code;
    }
    s.end();
    return Code::kOk;
  }

  void drop() {
    for (uint32_t k = 0; k < send.members.size(); ++k) {
      if (sent[k] != nullptr) s.services.abandon(sent[k]);
    }
    for (uint32_t k = 0; k < recv.members.size(); ++k) {
      if (asked[k] != nullptr) s.services.abandon(asked[k]);
    }
  }
};

Code Team::State::exchange_blocks(const Blocks& send, const Blocks& recv) {
  if (const Code code = begin(); code != Code::kOk) return code;
  NeighborCall call(*this, send, recv);
  Code code = call.ask() ? call.offer() : Code::kNoMemory;
  if (code == Code::kNoMemory) {
    call.drop();
    return decline();
  }
  if (code == Code::kOk) code = call.exchange();
  if (code != Code::kOk) call.drop();
  return code;
}

bool Team::agree_on_edges(uint32_t edges) {
  const uint64_t mine = ~uint64_t{edges};  // the least complement is of the most
  uint64_t of_all = 0;
  if (allreduce(&mine, &of_all, 1, least_word()) != Code::kOk) return false;
  state_->most_edges = static_cast<uint32_t>(~of_all);
  return state_->most_edges <= kMostEdges;
}

Code Team::neighbors(const Blocks& send, const Blocks& recv) {
  return state_->outcome(state_->exchange_blocks(send, recv));
}

}  // namespace zh::coll
