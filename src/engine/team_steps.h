// The shared steps of a schedule (coll/schedule/run.h) by a node's team.
#pragma once

#include <iterator>
#include <memory>
#include <new>
#include <span>

#include "coll/schedule/run.h"
#include "coll/team/team.h"

namespace zh::engine {

class TeamSteps final : public coll::NodeSteps {
 public:
  explicit TeamSteps(coll::Team& team) : team_(team) {}

  /// Whether all take the call for the same (coll::digest()). The same answer for all; waits for them.
  [[nodiscard]] bool agree(uint32_t digest) {
    // The least of a word and of its complement is the word and its complement only where all gave the same word.
    const uint64_t mine[] = {digest, ~uint64_t{digest}};
    uint64_t least[] = {0, 0};
    return team_.allreduce(mine, least, std::size(mine), least_) == Code::kOk && least[0] == ~least[1];
  }

  /// In place of agree(), for a rank that will not share: those that ask learn so. Waits for nobody.
  void pass() { team_.refuse(true); }

  Code bcast_root(const void* data, uint64_t bytes, uint32_t root) override {
    return bcast(const_cast<void*>(data), bytes, root);
  }
  Code bcast_leaf(void* data, uint64_t bytes, uint32_t root) override {
    const Code code = bcast(data, bytes, root);
    if (code == Code::kInvalid) return Code::kIo;  // nothing was given; less is no error of a team's
    return code == Code::kOk && team_.fell_short() ? Code::kInvalid : code;
  }
  Code reduce(const void* in, void* out, uint64_t count, const coll::Reduction& how, uint32_t root) override {
    return team_.reduce(in, out, count, count == 0 ? least_ : how, root);
  }
  Code gather_leaf(const void* data, uint64_t bytes, bool even, uint32_t root) override {
    return team_.gather(buffer(const_cast<void*>(data), bytes), {}, root, even);
  }
  Code gather_root(const void* own, void* all, std::span<const uint64_t> parts, bool even) override {
    return with_pieces(all, parts, even, [&](const coll::Pieces& pieces) {
      const Code code = team_.gather(buffer(const_cast<void*>(own), parts[team_.self()]), pieces, team_.self(), even);
      return code == Code::kInvalid ? Code::kIo : code;  // as in take()
    });
  }
  Code scatter_root(const void* all, std::span<const uint64_t> parts, bool even) override {
    return with_pieces(const_cast<void*>(all), parts, even, [&](const coll::Pieces& pieces) {
      return team_.scatter(pieces, pieces[team_.self()], team_.self(), even);
    });
  }
  Code scatter_leaf(void* data, uint64_t bytes, bool even, uint32_t root) override {
    const Code code = team_.scatter({}, buffer(data, bytes), root, even);
    if (code == Code::kInvalid) return Code::kIo;  // as in take()
    return code == Code::kOk && team_.fell_short() ? Code::kInvalid : code;
  }
  Code scan(const void* in, void* out, uint64_t count, const coll::Reduction& how, bool exclusive) override {
    return team_.scan(in, out, count, count == 0 ? least_ : how, exclusive);
  }
  Code reduce_scatter(const void* in, void* out, std::span<const uint64_t> parts, const coll::Reduction& how) override {
    std::unique_ptr<uint64_t[]> counts(new (std::nothrow) uint64_t[parts.size()]);
    if (counts == nullptr) {
      refuse();
      return Code::kNoMemory;
    }
    uint64_t total = 0;
    for (size_t i = 0; i < parts.size(); ++i) {
      counts[i] = parts[i] == 0 ? 0 : parts[i] / how.element_bytes;
      total += counts[i];
    }
    return team_.reduce_scatter(in, out, counts.get(), total == 0 ? least_ : how);
  }
  Code allgather(void* all, std::span<const uint64_t> parts) override {
    return with_pieces(all, parts, false, [&](const coll::Pieces& pieces) {
      const Code code = team_.allgather(pieces[team_.self()], pieces);
      if (code == Code::kInvalid) return Code::kIo;  // as in take()
      return code == Code::kOk && team_.fell_short() ? Code::kInvalid : code;
    });
  }
  void refuse() override { team_.refuse(false); }

 private:
  /// Calls f(pieces), of which `all` consists.
  template <typename F>
  Code with_pieces(void* all, std::span<const uint64_t> parts, bool even, F&& f) {
    coll::Pieces pieces{buffer(all, parts[0]), static_cast<int64_t>(parts[0]), nullptr};
    std::unique_ptr<copy::Buffer[]> list(even ? nullptr : new (std::nothrow) copy::Buffer[parts.size()]);
    if (!even && list == nullptr) {
      refuse();
      return Code::kNoMemory;
    }
    auto* at = static_cast<std::byte*>(all);
    for (size_t i = 0; i < parts.size() && !even; at += parts[i++]) list[i] = buffer(at, parts[i]);
    pieces.list = list.get();
    return f(pieces);
  }
  Code bcast(void* data, uint64_t bytes, uint32_t root) { return team_.bcast(buffer(data, bytes), root); }
  static copy::Buffer buffer(void* data, uint64_t bytes) { return {static_cast<std::byte*>(data), bytes, nullptr}; }

  coll::Team& team_;
  coll::Reduction least_ = coll::least_word();  ///< of agree(); also what combines no elements
};

}  // namespace zh::engine
