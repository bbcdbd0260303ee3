// See check.h.
#include "coll/analysis/check.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "coll/analysis/check_rank.h"
#include "coll/analysis/pairs.h"
#include "coll/analysis/rank_set.h"
#include "coll/analysis/shared_steps.h"
#include "coll/analysis/terms.h"
#include "coll/schedule/interval_map.h"

namespace zh::coll {
namespace {

/// What bytes of a buffer hold: a term, at position (own place + shift) of the inputs.
struct Held {
  Term term = kNothing;
  int64_t shift = 0;
  bool operator==(const Held&) const = default;
};

/// The same of bytes under way; `at` counts from the start of the message.
struct Stretch {
  uint64_t at, bytes;
  Held held;  ///< shift relative to the message's start
};

int64_t signed_of(uint64_t value) { return static_cast<int64_t>(value); }

class Execution {
 public:
  Execution(std::span<const Problem> problems, std::span<const Schedule> schedules, const Pairs& pairs,
            const SharedSteps& shared, const CheckLimits& limits)
      : problems_(problems),
        schedules_(schedules),
        pairs_(pairs),
        shared_(shared),
        limits_(limits),
        terms_(static_cast<uint32_t>(problems.size())) {
    ranks_.reserve(problems.size());
    for (uint32_t rank = 0; rank < problems.size(); ++rank) ranks_.push_back(start_of(rank));
  }

  /// "" if all steps complete.
  std::string run() {
    for (uint32_t rank = 0; rank < ranks_.size(); ++rank) {
      for (uint32_t i = 0; i < ranks_[rank].left.size(); ++i) {
        if (ranks_[rank].left[i] == 0) ready_.emplace_back(rank, i);
      }
    }
    while (!ready_.empty() && fault_.empty()) {
      const auto [rank, i] = ready_.back();
      ready_.pop_back();
      start(rank, i);
    }
    if (!fault_.empty()) return fault_;
    for (uint32_t rank = 0; rank < ranks_.size(); ++rank) {
      for (uint32_t i = 0; i < ranks_[rank].done.size(); ++i) {
        if (!ranks_[rank].done[i]) return step_name(rank, i) + "never completes: ranks wait for each other";
      }
    }
    return "";
  }

  std::string check_results() {
    for (uint32_t rank = 0; rank < ranks_.size(); ++rank) {
      if (std::string fault = check_result(rank); !fault.empty()) {
        return "rank " + std::to_string(rank) + ": " + fault;
      }
    }
    return "";
  }

  [[nodiscard]] bool gave_up() const { return gave_up_; }

 private:
  struct RankState {
    IntervalMap<Held> input, output, scratch;
    std::vector<uint32_t> left;                    ///< waits that are not complete, by step
    std::vector<std::vector<uint32_t>> followers;  ///< steps that wait for it
    std::vector<bool> started, done;
    std::vector<RankSet> heard;  ///< barrier: by step, of whose start it knows
  };

  RankState start_of(uint32_t rank) {
    const Problem& p = problems_[rank];
    const Schedule& schedule = schedules_[rank];
    const size_t n = schedule.steps.size();
    const Held own{terms_.input(rank), 0};
    RankState state{IntervalMap<Held>(own), IntervalMap<Held>(Held{}), IntervalMap<Held>(Held{}), {}, {}, {}, {}, {}};
    if (p.in_place && (p.collective == Collective::kGather || p.collective == Collective::kAllgather)) {
      const Range piece = p.recv_piece(rank);
      state.output.assign(piece.at, piece.bytes, {own.term, -signed_of(piece.at)});
    } else if (p.in_place && p.collective != Collective::kScatter) {
      state.output.assign(0, p.output_bytes(), own);
    }
    state.followers.resize(n);
    state.started.resize(n);
    state.done.resize(n);
    for (uint32_t i = 0; i < n; ++i) {
      state.left.push_back(schedule.steps[i].n_waits);
      for (const uint32_t wait : schedule.waits_of(schedule.steps[i])) state.followers[wait].push_back(i);
    }
    if (p.collective == Collective::kBarrier) state.heard.assign(n, RankSet(rank));
    return state;
  }

  [[nodiscard]] IntervalMap<Held>& buffer(uint32_t rank, Place place) {
    RankState& state = ranks_[rank];
    return place == Place::kInput ? state.input : place == Place::kOutput ? state.output : state.scratch;
  }

  std::vector<Stretch> read(uint32_t rank, Place place, uint64_t at, uint64_t bytes) {
    std::vector<Stretch> out;
    IntervalMap<Held>& held_there = buffer(rank, place);
    const size_t before = held_there.size();
    held_there.visit(at, bytes, [&](uint64_t from, uint64_t to, Held& held) {
      out.push_back({from - at, to - from, {held.term, held.shift + signed_of(at)}});
    });
    account(before, held_there.size(), out.size());
    return out;
  }

  void write(uint32_t rank, const Step& step, const std::vector<Stretch>& data) {
    IntervalMap<Held>& held_there = buffer(rank, step.to);
    const size_t before = held_there.size();
    for (const Stretch& s : data) {
      held_there.assign(step.to_at + s.at, s.bytes, {s.held.term, s.held.shift - signed_of(step.to_at)});
    }
    account(before, held_there.size(), data.size());
  }

  /// Gives up where the proof would take more memory or time than it may.
  void account(size_t before, size_t after, size_t moved) {
    stretches_ += after - before;  // modulo 2^64: it may become less
    moved_ += moved;
    if (stretches_ <= limits_.stretches && moved_ <= 16 * limits_.stretches) return;
    gave_up_ = true;
    fault_ = "the ranks hold bytes of more than " + std::to_string(limits_.stretches) +
             " origins: fewer ranks or bytes, please";
  }

  void start(uint32_t rank, uint32_t i) {
    const Step& step = schedules_[rank].steps[i];
    ranks_[rank].started[i] = true;
    switch (step.kind) {
      case StepKind::kCopy:
        write(rank, step, read(rank, step.from, step.from_at, step.bytes));
        return complete(rank, i);
      case StepKind::kReduceLocal:
        reduce(rank, i, step);
        return complete(rank, i);
      case StepKind::kSend:
      case StepKind::kReceive:
        break;
      default:
        return share(*shared_.group(rank, i));
    }
    const uint32_t other = pairs_.partner[rank][i];
    if (!ranks_[step.peer].started[other]) return;
    const bool sends = step.kind == StepKind::kSend;
    meet(sends ? rank : step.peer, sends ? i : other, sends ? step.peer : rank, sends ? other : i);
  }

  void meet(uint32_t source, uint32_t send, uint32_t dest, uint32_t receive) {
    const Step& from = schedules_[source].steps[send];
    write(dest, schedules_[dest].steps[receive], read(source, from.from, from.from_at, from.bytes));
    tell({source, send}, {dest, receive});
    complete(source, send);
    complete(dest, receive);
  }

  /// Nothing happens before all ranks of the group have begun.
  void share(const SharedSteps::Group& group) {
    for (const StepOf& end : group.ends) {
      if (!ranks_[end.rank].started[end.step]) return;
    }
    const StepOf root = group.root_end();
    const Step& step = step_at(root);
    switch (step.kind) {
      case StepKind::kBcastRoot: {
        const std::vector<Stretch> data = read(root.rank, step.from, step.from_at, step.bytes);
        for (const StepOf& end : group.ends) {
          if (end.rank != root.rank) write(end.rank, step_at(end), data);
        }
        break;
      }
      case StepKind::kReduceRoot:
        write(root.rank, step, combined(group, {0, step.bytes}));
        break;
      case StepKind::kAllreduce: {
        const std::vector<Stretch> result = combined(group, {0, step.bytes});
        for (const StepOf& end : group.ends) write(end.rank, step_at(end), result);
        break;
      }
      case StepKind::kGatherRoot:
        write(root.rank, step, parts_of(group));
        break;
      case StepKind::kAllgather: {
        const std::vector<Stretch> all = parts_of(group);
        for (const StepOf& end : group.ends) write(end.rank, step_at(end), all);
        break;
      }
      default:
        share_parts(group);
        break;
    }
    tell_all(group, step.kind);
    for (const StepOf& end : group.ends) complete(end.rank, end.step);
  }

  [[nodiscard]] const Step& step_at(const StepOf& end) const { return schedules_[end.rank].steps[end.step]; }

  /// Of what is parted or goes from rank to rank. kMeet moves nothing.
  void share_parts(const SharedSteps::Group& group) {
    const StepKind kind = step_at(group.root_end()).kind;
    std::vector<std::vector<Stretch>> results(group.ends.size());
    for (size_t i = 0; i < results.size(); ++i) {
      if (kind == StepKind::kScatterRoot && i != group.root) {
        results[i] = part_at(group, group.root, i);
      } else if (kind == StepKind::kReduceScatter) {
        results[i] = combined(group, place_of(group, group.root, i));
      } else if (kind == StepKind::kAlltoall) {
        for (size_t k = 0; k < results.size(); ++k) append(&results[i], part_at(group, k, i));
      } else if (kind == StepKind::kScan || kind == StepKind::kExscan) {
        results[i] = i == 0 ? operand_at(group, 0) : combined(group, results[i - 1], i);
      }
    }
    const bool of_one_before = kind == StepKind::kExscan;
    for (size_t i = results.size(); of_one_before && i-- > 0;) {
      results[i] = i > 0 ? results[i - 1] : std::vector<Stretch>{{0, step_at(group.ends[0]).bytes, Held{}}};
    }
    for (size_t i = 0; i < results.size(); ++i) write(group.ends[i].rank, step_at(group.ends[i]), results[i]);
  }

  /// The part for the i-th in what the k-th end has, from its start on.
  [[nodiscard]] Piece place_of(const SharedSteps::Group& group, size_t k, size_t i) const {
    const std::span<const uint64_t> parts = schedules_[group.ends[k].rank].parts_of(step_at(group.ends[k]));
    Piece place{0, parts[i]};
    for (size_t before = 0; before < i; ++before) place.at += parts[before];
    return place;
  }
  std::vector<Stretch> part_at(const SharedSteps::Group& group, size_t k, size_t i) {
    const StepOf& end = group.ends[k];
    const Piece place = place_of(group, k, i);
    return read(end.rank, step_at(end).from, step_at(end).from_at + place.at, place.bytes);
  }
  std::vector<Stretch> operand_at(const SharedSteps::Group& group, size_t i) {
    const StepOf& end = group.ends[i];
    return read(end.rank, step_at(end).from, step_at(end).from_at, step_at(end).bytes);
  }

  /// A shift counts from the start of them all.
  static void append(std::vector<Stretch>* all, const std::vector<Stretch>& more) {
    const uint64_t before = all->empty() ? 0 : all->back().at + all->back().bytes;
    for (const Stretch& s : more) {
      all->push_back({before + s.at, s.bytes, {s.held.term, s.held.shift - signed_of(before)}});
    }
  }

  /// Those bytes of the operands of all, combined by the root's step.
  std::vector<Stretch> combined(const SharedSteps::Group& group, const Piece& place) {
    const StepOf& first = group.ends[0];
    std::vector<Stretch> result = read(first.rank, step_at(first).from, step_at(first).from_at + place.at, place.bytes);
    for (size_t i = 1; i < group.ends.size(); ++i) result = combined(group, result, i, place.at);
    return result;
  }
  /// `operands` op that of the i-th end.
  std::vector<Stretch> combined(const SharedSteps::Group& group, const std::vector<Stretch>& operands, size_t i,
                                uint64_t at = 0) {
    const StepOf& root = group.root_end();
    const StepOf& end = group.ends[i];
    return combined(root.rank, root.step, operands, end.rank, step_at(end).from, step_at(end).from_at + at);
  }

  /// One behind another.
  std::vector<Stretch> parts_of(const SharedSteps::Group& group) {
    std::vector<Stretch> all;
    for (size_t i = 0; i < group.ends.size(); ++i) append(&all, operand_at(group, i));
    return all;
  }

  /// Barrier: whoever gets something knows what those know from which it comes.
  void tell_all(const SharedSteps::Group& group, StepKind kind) {
    if (ranks_[group.ends[0].rank].heard.empty()) return;
    const bool from_root = kind == StepKind::kBcastRoot;
    const bool to_root = kind == StepKind::kReduceRoot || kind == StepKind::kGatherRoot;
    RankSet known = ranks_[group.root_end().rank].heard[group.root_end().step];
    for (const StepOf& end : group.ends) {
      if (!from_root) known.add(ranks_[end.rank].heard[end.step]);
    }
    for (const StepOf& end : group.ends) {
      if (!to_root || end.rank == group.root_end().rank) ranks_[end.rank].heard[end.step].add(known);
    }
  }

  /// Barrier: what one knew when it began its step the other knows at the end of its own.
  void tell(const StepOf& from, const StepOf& to) {
    if (!ranks_[from.rank].heard.empty()) ranks_[to.rank].heard[to.step].add(ranks_[from.rank].heard[from.step]);
  }

  void reduce(uint32_t rank, uint32_t i, const Step& step) {
    write(rank, step, combined(rank, i, read(rank, step.from, step.from_at, step.bytes), rank, step.to, step.to_at));
  }

  /// `operands` op what lies from `at` on in a buffer of rank `other`, by step `i` of `rank`.
  std::vector<Stretch> combined(uint32_t rank, uint32_t i, const std::vector<Stretch>& operands, uint32_t other,
                                Place place, uint64_t at) {
    const uint64_t element = problems_[rank].element_bytes;
    if (schedules_[rank].steps[i].bytes % element != 0) fault_ = step_name(rank, i) + "combines a part of an element";
    std::vector<Stretch> result;
    for (const Stretch& left : operands) {
      for (Stretch right : read(other, place, at + left.at, left.bytes)) {
        const int64_t position = left.held.shift + signed_of(left.at + right.at);
        const Term term = terms_.combine(left.held.term, right.held.term);
        if (term == kNothing) fault_ = step_name(rank, i) + "combines an operand twice, or what was never written";
        if (position != right.held.shift + signed_of(right.at))
          fault_ = step_name(rank, i) + "combines different elements";
        if (position % signed_of(element) != 0) fault_ = step_name(rank, i) + "cuts an element";
        result.push_back({left.at + right.at, right.bytes, {term, left.held.shift}});
      }
    }
    return result;
  }

  void complete(uint32_t rank, uint32_t i) {
    RankState& state = ranks_[rank];
    state.done[i] = true;
    for (const uint32_t follower : state.followers[i]) {
      if (!state.heard.empty()) state.heard[follower].add(state.heard[i]);
      if (--state.left[follower] == 0) ready_.emplace_back(rank, follower);
    }
  }

  /// Bytes [at, at + bytes) of the output are those from `position` on of rank `from`'s input (`fold` 0), or of the
  /// combination of ranks 0..fold-1.
  struct Expected {
    uint64_t at, bytes, position;
    uint32_t from, fold;
  };

  [[nodiscard]] std::vector<Expected> expected(uint32_t rank) const {
    const Problem& p = problems_[rank];
    const auto all = static_cast<uint32_t>(problems_.size());
    std::vector<Expected> out;
    switch (p.collective) {
      case Collective::kBarrier:
      case Collective::kCount:
        break;
      case Collective::kBcast:
        if (rank != p.root) out.push_back({0, p.bytes(), 0, p.root, 0});
        break;
      case Collective::kReduce:
        if (rank == p.root) out.push_back({0, p.bytes(), 0, 0, all});
        break;
      case Collective::kAllreduce:
        out.push_back({0, p.bytes(), 0, 0, all});
        break;
      case Collective::kReduceScatter:
        out.push_back({0, p.send_piece(rank).bytes, p.send_piece(rank).at, 0, all});
        break;
      case Collective::kScan:
        out.push_back({0, p.bytes(), 0, 0, rank + 1});
        break;
      case Collective::kExscan:
        if (rank > 0) out.push_back({0, p.bytes(), 0, 0, rank});
        break;
      case Collective::kGather:
      case Collective::kAllgather:
        for (uint32_t r = 0; r < all && (rank == p.root || p.collective == Collective::kAllgather); ++r) {
          out.push_back({p.recv_piece(r).at, p.recv_piece(r).bytes, 0, r, 0});
        }
        break;
      case Collective::kScatter:
        if (!p.in_place) out.push_back({0, p.bytes(), problems_[p.root].send_piece(rank).at, p.root, 0});
        break;
      case Collective::kAlltoall:
        for (uint32_t r = 0; r < all; ++r) {
          out.push_back({p.recv_piece(r).at, p.recv_piece(r).bytes, problems_[r].send_piece(rank).at, r, 0});
        }
        break;
      case Collective::kNeighbor:
        return expected_of_neighbors(rank);
    }
    return out;
  }

  /// The k-th edge from a rank meets the k-th that it has to this one.
  [[nodiscard]] std::vector<Expected> expected_of_neighbors(uint32_t rank) const {
    const Problem& p = problems_[rank];
    std::vector<Expected> out;
    std::map<uint32_t, size_t> next;  // by source: where its destinations are to be looked through
    for (uint32_t i = 0; i < p.sources.size(); ++i) {
      const Problem& source = problems_[p.sources[i]];
      size_t& edge = next[p.sources[i]];
      while (edge < source.destinations.size() && source.destinations[edge] != rank) ++edge;
      const Range to = p.recv_piece(i);
      out.push_back({to.at, to.bytes, source.send_piece(static_cast<uint32_t>(edge)).at, p.sources[i], 0});
      ++edge;
    }
    return out;
  }

  std::string check_result(uint32_t rank) {
    const Problem& p = problems_[rank];
    std::string fault;
    std::vector<Expected> pieces = expected(rank);
    std::sort(pieces.begin(), pieces.end(), [](const Expected& a, const Expected& b) { return a.at < b.at; });
    uint64_t end = 0;
    for (const Expected& piece : pieces) {
      if (piece.bytes == 0) continue;
      check_untouched(rank, end, piece.at, fault);
      end = piece.at + piece.bytes;
      ranks_[rank].output.visit(piece.at, piece.bytes, [&](uint64_t from, uint64_t to, Held& held) {
        const bool right_term = piece.fold == 0 ? held.term == terms_.input(piece.from)
                                                : terms_.is_fold(held.term, piece.fold, !p.commutative);
        const bool right_place = held.shift == signed_of(piece.position) - signed_of(piece.at);
        if (right_term && right_place) return;
        fault = "bytes " + std::to_string(from) + " to " + std::to_string(to) + " of the output are " +
                (held.term == kNothing ? "never written"
                 : right_term          ? "those of another place"
                                       : "of a wrong origin");
      });
    }
    check_untouched(rank, end, p.output_bytes(), fault);
    if (p.collective == Collective::kAllreduce && rank > 0) compare_with_first(rank, fault);
    if (p.collective == Collective::kBarrier && problems_.size() > 1) {
      RankSet heard;
      for (const RankSet& step : ranks_[rank].heard) heard.add(step);
      if (!heard.is_first(static_cast<uint32_t>(ranks_.size()))) {
        uint32_t missed = 0;
        while (heard.overlaps(RankSet(missed))) ++missed;
        fault = "leaves the barrier without having heard of rank " + std::to_string(missed);
      }
    }
    return fault;
  }

  void check_untouched(uint32_t rank, uint64_t from, uint64_t to, std::string& fault) {
    if (from >= to || problems_[rank].in_place) return;
    ranks_[rank].output.visit(from, to - from, [&](uint64_t a, uint64_t b, Held& held) {
      if (held.term == kNothing) return;
      fault = "bytes " + std::to_string(a) + " to " + std::to_string(b) + " of the output should not be written";
    });
  }

  void compare_with_first(uint32_t rank, std::string& fault) {
    ranks_[rank].output.visit(0, problems_[rank].bytes(), [&](uint64_t from, uint64_t to, Held& held) {
      ranks_[0].output.visit(from, to - from, [&](uint64_t, uint64_t, Held& first) {
        if (first.term != held.term) fault = "the result is combined otherwise than on rank 0";
      });
    });
  }

  std::span<const Problem> problems_;
  std::span<const Schedule> schedules_;
  const Pairs& pairs_;
  const SharedSteps& shared_;
  const CheckLimits& limits_;
  Terms terms_;
  std::vector<RankState> ranks_;
  std::vector<std::pair<uint32_t, uint32_t>> ready_;
  std::string fault_;
  uint64_t stretches_ = 0;  ///< in all buffers, but for one of each
  uint64_t moved_ = 0;      ///< so far
  bool gave_up_ = false;
};

void count(std::span<const Problem> problems, std::span<const Schedule> schedules, Verdict& verdict) {
  const Layout& layout = *problems[0].layout;
  for (uint32_t rank = 0; rank < schedules.size(); ++rank) {
    verdict.steps += schedules[rank].steps.size();
    for (const Step& step : schedules[rank].steps) {
      if (step.kind != StepKind::kSend || step.peer >= layout.ranks()) continue;
      const bool leaves = layout.node_of(rank) != layout.node_of(step.peer);
      verdict.messages += 1;
      verdict.message_bytes += step.bytes;
      verdict.node_messages += leaves ? 1 : 0;
      verdict.node_bytes += leaves ? step.bytes : 0;
    }
  }
}

}  // namespace

Verdict check(std::span<const Problem> problems, std::span<const Schedule> schedules, const CheckLimits& limits) {
  Verdict verdict;
  if (problems.empty() || problems.size() != schedules.size()) {
    verdict.fault = "not one schedule for every rank";
    return verdict;
  }
  count(problems, schedules, verdict);
  for (uint32_t rank = 0; rank < schedules.size() && verdict.proved(); ++rank) {
    verdict.fault = check_rank(problems[rank], schedules[rank], rank);
  }
  if (!verdict.proved()) return verdict;
  const Pairs pairs = pair_messages(schedules);
  verdict.fault = pairs.complaint;
  if (!verdict.proved()) return verdict;
  const SharedSteps shared = match_shared(schedules, *problems[0].layout);
  verdict.fault = shared.complaint;
  if (!verdict.proved()) return verdict;
  Execution execution(problems, schedules, pairs, shared, limits);
  verdict.fault = execution.run();
  verdict.gave_up = execution.gave_up();
  if (verdict.proved()) verdict.fault = execution.check_results();
  return verdict;
}

}  // namespace zh::coll
