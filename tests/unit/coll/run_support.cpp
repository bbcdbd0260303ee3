// See run_support.h.
#include "run_support.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>

namespace zh::test {

using coll::Collective;
using coll::Problem;
using coll::Reduction;

Bytes random_bytes(std::mt19937_64& rng, uint64_t n, bool doubles) {
  Bytes out(n);
  for (uint64_t i = 0; i + 8 <= n && doubles; i += 8) {
    const double value = static_cast<double>(rng() % 1000) / 7;
    std::memcpy(out.data() + i, &value, 8);
  }
  for (uint64_t i = 0; i < n && !doubles; ++i) out[i] = static_cast<std::byte>(rng());
  return out;
}

Network::Network(uint32_t ranks, uint64_t seed) : rng_(seed) {
  for (uint32_t r = 0; r < ranks; ++r) ranks_.emplace_back(*this, r);
}

Network::Message& Network::find(uint32_t source, uint32_t dest, int32_t tag, bool sender) {
  for (Message& m : messages_) {
    if (m.source != source || m.dest != dest || m.tag != tag || (sender ? m.sent : m.received)) continue;
    matched_.push_back(&m);
    return m;
  }
  Message& m = messages_.emplace_back();
  m.source = source;
  m.dest = dest;
  m.tag = tag;
  return m;
}

bool Network::deliver() {
  if (matched_.empty()) return false;
  std::swap(matched_[rng_() % matched_.size()], matched_.back());
  Message& m = *matched_.back();
  matched_.pop_back();
  if (m.taken_back) return true;
  EXPECT_TRUE(lengths_may_differ_ || m.from_bytes == m.to_bytes) << m.from_bytes << " to " << m.to_bytes;
  const void* from = m.kept.empty() ? m.from : m.kept.data();
  const uint64_t bytes = std::min(m.from_bytes, m.to_bytes);
  if (bytes > 0 && m.to != nullptr) std::memcpy(m.to, from, bytes);
  m.arrived = true;
  return true;
}

Code Network::Endpoint::send(uint32_t rank, int32_t tag, const void* data, uint64_t bytes, void** handle) {
  if (is_dead(rank)) return Code::kPeerDead;
  if (network_.fails()) return Code::kNoMemory;
  Message& m = network_.find(rank_, rank, tag, true);
  m.sent = true;
  m.from = data;
  m.from_bytes = bytes;
  const bool let_go = network_.ranks_[rank].let_go_.contains(tag - tag % static_cast<int32_t>(coll::kTags));
  if (let_go && !m.received) {
    m.received = true;
    network_.matched_.push_back(&m);
  }
  if (network_.rng_() % 2 == 0) {
    const auto* bytes_of = static_cast<const std::byte*>(data);
    if (bytes > 0) m.kept.assign(bytes_of, bytes_of + bytes);
    return Code::kOk;
  }
  ++network_.open_;
  *handle = &m;
  return Code::kOk;
}

Code Network::Endpoint::receive(uint32_t rank, int32_t tag, void* data, uint64_t bytes, void** handle) {
  if (is_dead(rank)) return Code::kPeerDead;
  if (network_.fails()) return Code::kNoMemory;
  Message& m = network_.find(rank, rank_, tag, false);
  m.received = true;
  m.to = data;
  m.to_bytes = bytes;
  ++network_.open_;
  *handle = &m;
  return Code::kOk;
}

bool Network::Endpoint::test(void* handle, Code* code) {
  const auto* m = static_cast<const Message*>(handle);
  const bool receiver = m->dest == rank_;
  const bool dead = is_dead(receiver ? m->source : m->dest);
  if (!m->arrived && !dead) return false;
  *code = !m->arrived                                 ? Code::kPeerDead
          : !receiver || m->from_bytes == m->to_bytes ? Code::kOk
          : m->from_bytes > m->to_bytes               ? Code::kTruncated
          : m->from_bytes == 0                        ? Code::kIo
                                                      : Code::kInvalid;
  --network_.open_;
  return true;
}

bool Network::Endpoint::contradicted(uint64_t number, uint32_t digest) const {
  return std::any_of(network_.ranks_.begin(), network_.ranks_.end(), [&](const Endpoint& other) {
    if (is_far(other.rank_)) return other.given_up_.contains(number);
    const auto it = other.announced_.find(number);
    return it != other.announced_.end() && it->second != digest;
  });
}

// What was sent for the call arrives nowhere.
void Network::Endpoint::give_up(uint64_t number, int32_t first_tag) {
  network_.death_told_ = network_.death_told_ || bereft();
  given_up_.insert(number);
  let_go_.insert(first_tag);
  for (Message& m : network_.messages_) {
    const bool concerned = m.dest == rank_ && m.sent && !m.received && m.tag >= first_tag &&
                           m.tag < first_tag + static_cast<int32_t>(coll::kTags);
    if (!concerned) continue;
    m.received = true;
    network_.matched_.push_back(&m);
  }
}

bool Network::Endpoint::bereft() const {
  return network_.death_told_ || (network_.dead_ != ~0U && is_dead(network_.dead_));
}

bool Network::Endpoint::is_far(uint32_t rank) const {
  const coll::Layout* layout = network_.layout_.get();
  return layout != nullptr && layout->node_of(rank) != layout->node_of(rank_);
}

void Network::Endpoint::abandon(void* handle) {
  auto* m = static_cast<Message*>(handle);
  if (m->dest == rank_) {
    m->to = nullptr;
  } else {
    m->taken_back = true;
  }
  --network_.open_;
}

namespace {

struct Matrix {
  uint32_t v[4];
};

void multiply(void*, void* in, void* inout, uint64_t n) {
  for (uint64_t i = 0; i < n; ++i) {
    Matrix a;
    Matrix b;
    std::memcpy(&a, static_cast<std::byte*>(in) + i * sizeof a, sizeof a);
    std::memcpy(&b, static_cast<std::byte*>(inout) + i * sizeof b, sizeof b);
    const Matrix c{{a.v[0] * b.v[0] + a.v[1] * b.v[2], a.v[0] * b.v[1] + a.v[1] * b.v[3],
                    a.v[2] * b.v[0] + a.v[3] * b.v[2], a.v[2] * b.v[1] + a.v[3] * b.v[3]}};
    std::memcpy(static_cast<std::byte*>(inout) + i * sizeof c, &c, sizeof c);
  }
}

template <typename T>
void add(const void* a, const void* b, void* out, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    T x;
    T y;
    std::memcpy(&x, static_cast<const std::byte*>(a) + i * sizeof x, sizeof x);
    std::memcpy(&y, static_cast<const std::byte*>(b) + i * sizeof y, sizeof y);
    x = static_cast<T>(x + y);
    std::memcpy(static_cast<std::byte*>(out) + i * sizeof x, &x, sizeof x);
  }
}

/// The place among its sender's destinations of the edge that is the i-th of `rank`'s sources: the k-th between the two
/// is the k-th in both lists.
uint32_t place_at_sender(const std::vector<Problem>& problems, uint32_t rank, uint32_t i) {
  const std::vector<uint32_t>& in = problems[rank].sources;
  const std::vector<uint32_t>& out = problems[in[i]].destinations;
  auto before = std::count(in.begin(), in.begin() + i, in[i]);
  const auto found = std::find_if(out.begin(), out.end(), [&](uint32_t to) { return to == rank && before-- == 0; });
  return static_cast<uint32_t>(found - out.begin());
}

}  // namespace

Reduction matrix_product() {
  Reduction how;
  how.element_bytes = sizeof(Matrix);
  how.user = multiply;
  how.commutative = false;
  return how;
}

Reduction double_sum() {
  Reduction how;
  how.element_bytes = sizeof(double);
  how.kernel = add<double>;
  return how;
}

Reduction int_sum() {
  Reduction how;
  how.element_bytes = sizeof(uint32_t);
  how.kernel = add<uint32_t>;
  return how;
}

std::vector<std::byte> expected_output(const std::vector<Problem>& problems, uint32_t rank,
                                       const std::vector<std::vector<std::byte>>& inputs, const Reduction& how,
                                       std::vector<std::byte> before) {
  const Problem& p = problems[rank];
  const auto all = static_cast<uint32_t>(problems.size());
  const auto put = [&](uint64_t at, const std::byte* from, uint64_t bytes) {
    if (bytes > 0) std::memcpy(before.data() + at, from, bytes);
  };
  // Folds bytes [from, from + bytes) of the inputs of ranks 0..n-1.
  const auto fold = [&](uint32_t n, uint64_t from, uint64_t bytes) {
    if (n == 0 || bytes == 0) return;
    std::vector<std::byte> acc(inputs[n - 1].begin() + static_cast<int64_t>(from),
                               inputs[n - 1].begin() + static_cast<int64_t>(from + bytes));
    for (uint32_t r = n - 1; r-- > 0;) how.combine(inputs[r].data() + from, acc.data(), bytes / how.element_bytes);
    put(0, acc.data(), bytes);
  };
  switch (p.collective) {
    case Collective::kBarrier:
    case Collective::kCount:
      break;
    case Collective::kBcast:
      if (rank != p.root) put(0, inputs[p.root].data(), p.bytes());
      break;
    case Collective::kReduce:
      if (rank == p.root) fold(all, 0, p.bytes());
      break;
    case Collective::kAllreduce:
      fold(all, 0, p.bytes());
      break;
    case Collective::kReduceScatter:
      fold(all, p.send_piece(rank).at, p.send_piece(rank).bytes);
      break;
    case Collective::kScan:
      fold(rank + 1, 0, p.bytes());
      break;
    case Collective::kExscan:
      fold(rank, 0, p.bytes());
      break;
    case Collective::kGather:
      if (rank != p.root) break;
      [[fallthrough]];
    case Collective::kAllgather:
      for (uint32_t r = 0; r < all; ++r) put(p.recv_piece(r).at, inputs[r].data(), p.recv_piece(r).bytes);
      break;
    case Collective::kScatter:
      put(0, inputs[p.root].data() + problems[p.root].send_piece(rank).at, p.bytes());
      break;
    case Collective::kAlltoall:
      for (uint32_t r = 0; r < all; ++r) {
        put(p.recv_piece(r).at, inputs[r].data() + problems[r].send_piece(rank).at, p.recv_piece(r).bytes);
      }
      break;
    case Collective::kNeighbor:
      for (uint32_t i = 0; i < p.sources.size(); ++i) {
        const uint32_t source = p.sources[i];
        const uint64_t from = problems[source].send_piece(place_at_sender(problems, rank, i)).at;
        put(p.recv_piece(i).at, inputs[source].data() + from, p.recv_piece(i).bytes);
      }
      break;
  }
  return before;
}

Meeting::Meeting(uint32_t leaders) : brought_(leaders), all_(leaders) {
  for (uint32_t i = 0; i < leaders; ++i) ends_.emplace_back(*this, i);
}

Code Meeting::End::leave() {
  meeting_.all_.arrive_and_wait();
  return meeting_.failing_ == self_ ? Code::kIo : Code::kOk;
}

Code Meeting::End::barrier() { return leave(); }

void Meeting::End::bring(const void* in, std::span<const uint64_t> parts) {
  meeting_.brought_[self_] = {in, parts};
  meeting_.all_.arrive_and_wait();
}

uint64_t Meeting::End::before(std::span<const uint64_t> parts, size_t i) {
  return std::accumulate(parts.begin(), parts.begin() + static_cast<int64_t>(i), uint64_t{0});
}

Code Meeting::End::bcast(void* data, uint64_t bytes, uint32_t root) {
  bring(data);
  if (self_ != root && bytes > 0) std::memcpy(data, meeting_.brought_[root].in, bytes);
  return leave();
}

std::vector<std::byte> Meeting::End::combined(uint64_t count, const Reduction& how, size_t end) {
  const uint64_t bytes = count * how.element_bytes;
  const auto copy_of = [&](size_t leader) {
    const auto* from = static_cast<const std::byte*>(meeting_.brought_[leader].in);
    return std::vector<std::byte>(from, from + bytes);
  };
  std::vector<std::byte> sum;
  for (size_t i = 0; i < end; ++i) {
    std::vector<std::byte> next = copy_of(i);
    if (i > 0) how.combine(sum.data(), next.data(), count);
    sum = std::move(next);
  }
  meeting_.all_.arrive_and_wait();
  return sum;
}

Code Meeting::End::reduce(const void* in, void* out, uint64_t count, const Reduction& how, uint32_t root) {
  bring(in);
  const std::vector<std::byte> result = combined(count, how, meeting_.brought_.size());
  if (self_ == root && !result.empty()) std::memcpy(out, result.data(), result.size());
  return leave();
}

Code Meeting::End::allreduce(const void* in, void* out, uint64_t count, const Reduction& how) {
  bring(in);
  const std::vector<std::byte> result = combined(count, how, meeting_.brought_.size());
  if (!result.empty()) std::memcpy(out, result.data(), result.size());
  return leave();
}

Code Meeting::End::reduce_scatter(const void* in, void* out, std::span<const uint64_t> parts, const Reduction& how) {
  bring(in);
  const uint64_t total = before(parts, parts.size());
  const std::vector<std::byte> result = combined(total / how.element_bytes, how, meeting_.brought_.size());
  if (parts[self_] > 0) std::memcpy(out, result.data() + before(parts, self_), parts[self_]);
  return leave();
}

Code Meeting::End::exscan(const void* in, void* out, uint64_t count, const Reduction& how) {
  bring(in);
  const std::vector<std::byte> result = combined(count, how, self_);
  if (!result.empty()) std::memcpy(out, result.data(), result.size());
  return leave();
}

Code Meeting::End::allgather(void* all, std::span<const uint64_t> parts) {
  bring(all);
  for (uint32_t i = 0; i < parts.size(); ++i) {
    const auto* from = static_cast<const std::byte*>(meeting_.brought_[i].in) + before(parts, i);
    if (i != self_ && parts[i] > 0) std::memcpy(static_cast<std::byte*>(all) + before(parts, i), from, parts[i]);
  }
  return leave();
}

Code Meeting::End::gather(const void* own, uint64_t bytes, void* all, std::span<const uint64_t> parts, bool even,
                          uint32_t root) {
  bring(own);
  EXPECT_TRUE(self_ != root || bytes == 0 || own == static_cast<std::byte*>(all) + before(parts, self_));
  for (uint32_t i = 0; i < parts.size(); ++i) {
    EXPECT_TRUE(!even || parts[i] == bytes);
    if (i != self_ && parts[i] > 0) {
      std::memcpy(static_cast<std::byte*>(all) + before(parts, i), meeting_.brought_[i].in, parts[i]);
    }
  }
  return leave();
}

Code Meeting::End::scatter(const void* all, std::span<const uint64_t> parts, void* own, uint64_t bytes, bool even,
                           uint32_t root) {
  bring(all, parts);
  const Brought& given = meeting_.brought_[root];
  EXPECT_TRUE(given.parts[self_] == bytes && (!even || given.parts[0] == bytes));
  if (self_ != root && bytes > 0) {
    std::memcpy(own, static_cast<const std::byte*>(given.in) + before(given.parts, self_), bytes);
  }
  return leave();
}

Code Meeting::End::alltoall(const void* in, void* out, std::span<const uint64_t> parts) {
  bring(in, parts);
  for (uint32_t i = 0; i < parts.size(); ++i) {
    const Brought& given = meeting_.brought_[i];
    EXPECT_EQ(given.parts[self_], parts[i]);
    if (parts[i] == 0) continue;
    std::memcpy(static_cast<std::byte*>(out) + before(parts, i),
                static_cast<const std::byte*>(given.in) + before(given.parts, self_), parts[i]);
  }
  return leave();
}

}  // namespace zh::test
