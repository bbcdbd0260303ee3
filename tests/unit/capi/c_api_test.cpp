// The C face with real processes: LiMIC's calls, wildcards, pieces, probe, cancel, errors.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "support/fork_world.h"
#include "zerohop/zerohop.h"

namespace {

using zh::node::Bootstrap;

int allgather(void* user, const void* in, size_t bytes, void* out) {
  return static_cast<Bootstrap*>(user)->allgather(in, bytes, out).ok() ? 0 : -EIO;
}

zh_rank* open_rank(Bootstrap& world) {
  const zh_job job{world.rank(), world.size(), allgather, &world, 0};
  zh_rank* self = nullptr;
  EXPECT_EQ(zh_open(&job, &self), 0);
  return self;
}

iovec piece(void* p, size_t n) { return {p, n}; }

TEST(CApi, LaterArriverGetsAMessageInPieces) {
  zh::test::run_ranks(zh::test::World::kProcesses, 2, [](Bootstrap& world) {
    zh_rank* self = open_rank(world);
    ASSERT_NE(self, nullptr);
    constexpr size_t kBytes = 3 << 20;
    std::vector<char> data(kBytes);
    zh_request* request = nullptr;
    zh_status status{};
    if (world.rank() == 0) {
      for (size_t i = 0; i < kBytes; ++i) data[i] = static_cast<char>(i * 7);
      const std::array<iovec, 2> pieces = {piece(data.data(), 1000), piece(data.data() + 1000, kBytes - 1000)};
      ASSERT_EQ(zh_isend(self, 1, 5, 9, pieces.data(), 2, &request), 0);
      EXPECT_EQ(zh_wait(self, request, &status), 0);
    } else {
      const std::array<iovec, 3> pieces = {piece(data.data(), 1 << 20), piece(data.data() + (2 << 20), 1 << 20),
                                           piece(data.data() + (1 << 20), 1 << 20)};
      ASSERT_EQ(zh_irecv(self, ZH_ANY_SOURCE, ZH_ANY_TAG, 9, pieces.data(), 3, &request), 0);
      EXPECT_EQ(zh_wait(self, request, &status), 0);
      EXPECT_EQ(status.source, 0);
      EXPECT_EQ(status.tag, 5);
      EXPECT_EQ(status.bytes, kBytes);
      for (size_t i = 0; i < kBytes; ++i) {
        const size_t mib = i >> 20;
        const size_t place = (mib == 0 ? 0 : mib == 1 ? size_t{2} << 20 : size_t{1} << 20) + (i & ((1 << 20) - 1));
        ASSERT_EQ(data[place], static_cast<char>(i * 7)) << i;
      }
    }
    char* text = zh_statistics(self);
    EXPECT_EQ(text[0], '{');
    std::free(text);
    EXPECT_EQ(zh_close(self), 0);
  });
}

TEST(CApi, ProbesCancelsAndReportsErrors) {
  zh::test::run_ranks(zh::test::World::kProcesses, 2, [](Bootstrap& world) {
    zh_rank* self = open_rank(world);
    ASSERT_NE(self, nullptr);
    std::array<char, 64> data{};
    iovec whole = piece(data.data(), data.size());
    zh_request* request = nullptr;
    zh_status status{};
    EXPECT_EQ(zh_isend(self, 7, 0, 1, &whole, 1, &request), -EINVAL);
    EXPECT_EQ(zh_isend(self, 0, -3, 1, &whole, 1, &request), -EINVAL);
    EXPECT_EQ(zh_irecv(self, 0, ZH_ANY_TAG - 1, 1, &whole, 1, &request), -EINVAL);
    ASSERT_EQ(zh_irecv(self, ZH_ANY_SOURCE, 77, 1, &whole, 1, &request), 0);
    EXPECT_EQ(zh_cancel(self, request), 1);
    EXPECT_EQ(zh_wait(self, request, &status), 0);
    EXPECT_EQ(status.cancelled, 1);
    if (world.rank() == 0) {
      ASSERT_EQ(zh_issend(self, 1, 3, 1, &whole, 1, &request), 0);
      EXPECT_EQ(zh_wait(self, request, nullptr), 0);
    } else {
      while (zh_iprobe(self, 0, 3, 1, &status) == 0) {
      }
      EXPECT_EQ(status.bytes, 64u);
      zh_message* message = nullptr;
      ASSERT_EQ(zh_improbe(self, ZH_ANY_SOURCE, ZH_ANY_TAG, 1, &message, &status), 1);
      EXPECT_EQ(zh_iprobe(self, 0, 3, 1, &status), 0);
      iovec half = piece(data.data(), 32);
      ASSERT_EQ(zh_imrecv(self, message, &half, 1, &request), 0);
      EXPECT_EQ(zh_wait(self, request, &status), 0);
      EXPECT_EQ(status.error, -EMSGSIZE);
      EXPECT_EQ(status.bytes, 32u);
    }
    EXPECT_EQ(zh_close(self), 0);
  });
}

TEST(CApi, AJobThatIsNoneIsRefused) {
  zh_rank* self = nullptr;
  for (const int rank : {-1, 2, 3}) {
    const zh_job job{rank, 2, allgather, nullptr, 0};
    EXPECT_EQ(zh_open(&job, &self), -EINVAL) << rank;
  }
  const zh_job mute{0, 2, nullptr, nullptr, 0};
  EXPECT_EQ(zh_open(&mute, &self), -EINVAL);
  EXPECT_EQ(self, nullptr);
}

/// Element i of what a rank gives.
int64_t given(int rank, size_t i) { return (rank + 1) * int64_t{1000003} + static_cast<int64_t>(i) * 17; }
std::vector<int64_t> given_by(int rank, size_t n) {
  std::vector<int64_t> v(n);
  for (size_t i = 0; i < n; ++i) v[i] = given(rank, i);
  return v;
}

constexpr int kRanks = 3;

/// Every collective once, of pieces of n elements; blocking ones, and the nonblocking ones that there are.
void all_collectives(zh_rank* self, int me, size_t n) {
  const size_t bytes = n * sizeof(int64_t);
  const std::vector<int64_t> mine = given_by(me, n * kRanks);
  std::vector<int64_t> sums(n * kRanks);
  std::vector<int64_t> gathered;
  for (size_t i = 0; i < sums.size(); ++i) {
    for (int r = 0; r < kRanks; ++r) sums[i] += given(r, i);
  }
  for (int r = 0; r < kRanks; ++r) {
    const std::vector<int64_t> theirs = given_by(r, n);
    gathered.insert(gathered.end(), theirs.begin(), theirs.end());
  }
  const auto first = [n](const std::vector<int64_t>& v) { return std::vector<int64_t>(v.begin(), v.begin() + n); };
  for (int root = 0; root < kRanks; ++root) {
    std::vector<int64_t> v = me == root ? mine : std::vector<int64_t>(mine.size());
    ASSERT_EQ(zh_bcast(self, v.data(), bytes, root), 0);
    EXPECT_EQ(first(v), given_by(root, n));
    std::vector<int64_t> all(n * kRanks);
    ASSERT_EQ(zh_gather(self, mine.data(), bytes, all.data(), root), 0);
    if (me == root) {
      EXPECT_EQ(all, gathered);
    }
    ASSERT_EQ(zh_scatter(self, me == root ? mine.data() : nullptr, bytes, v.data(), root), 0);
    for (size_t i = 0; i < n; ++i) ASSERT_EQ(v[i], given(root, static_cast<size_t>(me) * n + i));
    ASSERT_EQ(zh_reduce(self, mine.data(), v.data(), n, ZH_INT64, ZH_SUM, root), 0);
    if (me == root) {
      EXPECT_EQ(first(v), first(sums));
    }
  }
  std::vector<int64_t> all(n * kRanks);
  std::copy_n(mine.begin(), n, all.begin() + static_cast<ptrdiff_t>(static_cast<size_t>(me) * n));
  ASSERT_EQ(zh_allgather(self, nullptr, bytes, all.data()), 0);
  EXPECT_EQ(all, gathered);
  std::vector<int64_t> traded(n * kRanks);
  ASSERT_EQ(zh_alltoall(self, mine.data(), bytes, traded.data()), 0);
  for (int r = 0; r < kRanks; ++r) {
    for (size_t i = 0; i < n; ++i)
      ASSERT_EQ(traded[static_cast<size_t>(r) * n + i], given(r, static_cast<size_t>(me) * n + i));
  }
  std::vector<int64_t> sum = mine;
  ASSERT_EQ(zh_allreduce(self, sum.data(), sum.data(), n, ZH_INT64, ZH_SUM), 0);
  EXPECT_EQ(first(sum), first(sums));
  ASSERT_EQ(zh_reduce_scatter(self, mine.data(), sum.data(), n, ZH_INT64, ZH_SUM), 0);
  for (size_t i = 0; i < n; ++i) ASSERT_EQ(sum[i], sums[static_cast<size_t>(me) * n + i]);
  ASSERT_EQ(zh_scan(self, mine.data(), sum.data(), n, ZH_INT64, ZH_MAX), 0);
  EXPECT_EQ(first(sum), first(mine));
  ASSERT_EQ(zh_barrier(self), 0);

  std::array<zh_request*, 5> requests{};
  std::vector<int64_t> told = me == 1 ? mine : std::vector<int64_t>(mine.size());
  std::fill(all.begin(), all.end(), 0);
  std::fill(traded.begin(), traded.end(), 0);
  ASSERT_EQ(zh_iallreduce(self, mine.data(), sum.data(), n, ZH_INT64, ZH_SUM, &requests[0]), 0);
  ASSERT_EQ(zh_ibcast(self, told.data(), bytes, 1, &requests[1]), 0);
  ASSERT_EQ(zh_iallgather(self, mine.data(), bytes, all.data(), &requests[2]), 0);
  ASSERT_EQ(zh_ialltoall(self, mine.data(), bytes, traded.data(), &requests[3]), 0);
  ASSERT_EQ(zh_ibarrier(self, &requests[4]), 0);
  for (size_t i = requests.size(); i-- > 0;) {
    zh_status status{};
    EXPECT_EQ(zh_cancel(self, requests[i]), 0);
    ASSERT_EQ(zh_wait(self, requests[i], &status), 0);
    EXPECT_EQ(status.error, 0);
  }
  EXPECT_EQ(first(sum), first(sums));
  EXPECT_EQ(first(told), given_by(1, n));
  EXPECT_EQ(all, gathered);
  for (int r = 0; r < kRanks; ++r) EXPECT_EQ(traded[static_cast<size_t>(r) * n], given(r, static_cast<size_t>(me) * n));
}

TEST(CApi, EveryCollectiveOfEverySize) {
  zh::test::run_ranks(zh::test::World::kProcesses, kRanks, [](Bootstrap& world) {
    zh_rank* self = open_rank(world);
    ASSERT_NE(self, nullptr);
    for (const size_t n : {size_t{1}, size_t{30}, size_t{4000}, size_t{200'000}}) {
      ASSERT_NO_FATAL_FAILURE(all_collectives(self, world.rank(), n));
    }
    EXPECT_EQ(zh_close(self), 0);
  });
}

TEST(CApi, TwoThreadsMakeTheFirstCollectives) {
  zh::test::run_ranks(zh::test::World::kProcesses, 2, [](Bootstrap& world) {
    for (int i = 0; i < 20; ++i) {
      zh_rank* self = open_rank(world);
      ASSERT_NE(self, nullptr);
      zh_enable_threads(self);
      std::thread other([self, &world] {
        const double mine = world.rank();
        double sum = 0;
        EXPECT_EQ(zh_allreduce(self, &mine, &sum, 1, ZH_DOUBLE, ZH_SUM), 0);
        EXPECT_EQ(sum, 1.0);
      });
      std::array<int, 2> all{};
      const int mine = world.rank();
      zh_request* request = nullptr;
      EXPECT_EQ(zh_iallgather(self, &mine, sizeof mine, all.data(), &request), 0);
      EXPECT_EQ(zh_wait(self, request, nullptr), 0);
      EXPECT_EQ(all[1], 1);
      other.join();
      EXPECT_EQ(zh_close(self), 0);
    }
  });
}

// What is left of calls that ended with errors keeps nobody from closing, and calls under way end by then.
TEST(CApi, ClosesAfterErrorsAndWithCallsUnderWay) {
  zh::test::run_ranks(zh::test::World::kProcesses, 3, [](Bootstrap& world) {
    zh_rank* self = open_rank(world);
    ASSERT_NE(self, nullptr);
    constexpr size_t kMost = 80'000;
    std::vector<char> in(kMost);
    std::vector<char> out(3 * kMost);
    zh_request* request = nullptr;
    zh_status status{};
    const bool first = world.rank() == 0;
    ASSERT_EQ(zh_iallgather(self, in.data(), first ? 0 : kMost, out.data(), &request), 0);
    ASSERT_EQ(zh_wait(self, request, &status), 0);
    double sum = 0;
    const double one = 1;
    const zh_type type = first ? static_cast<zh_type>(ZH_DOUBLE + 1) : ZH_DOUBLE;
    EXPECT_NE(zh_allreduce(self, &one, &sum, 1, type, ZH_SUM), 0);
    EXPECT_EQ(zh_allreduce(self, &one, &sum, 1, ZH_DOUBLE, ZH_SUM), 0);
    EXPECT_EQ(sum, 3.0);
    ASSERT_EQ(zh_iallreduce(self, &one, &sum, 1, ZH_DOUBLE, ZH_SUM, &request), 0);
    ASSERT_EQ(zh_iallgather(self, in.data(), first ? 0 : kMost, out.data(), &request), 0);
    EXPECT_EQ(zh_close(self), 0);
  });
}

TEST(CApi, CollectivesThatAreWrongOrDisagree) {
  zh::test::run_ranks(zh::test::World::kProcesses, 2, [](Bootstrap& world) {
    zh_rank* self = open_rank(world);
    ASSERT_NE(self, nullptr);
    std::array<double, 4> in{1, 2, 3, 4};
    std::array<double, 4> out{};
    EXPECT_EQ(zh_bcast(self, in.data(), 8, 2), -EINVAL);
    EXPECT_EQ(zh_allreduce(self, in.data(), out.data(), 4, ZH_DOUBLE, ZH_BXOR), -EINVAL);
    EXPECT_EQ(zh_allreduce(self, in.data(), out.data(), 4, static_cast<zh_type>(ZH_DOUBLE + 1), ZH_SUM), -EINVAL);
    // More from one than the other takes.
    const int error = zh_bcast(self, in.data(), world.rank() == 0 ? 32 : 8, 0);
    EXPECT_EQ(error, world.rank() == 0 ? 0 : -EMSGSIZE);
    zh_request* request = nullptr;
    zh_status status{};
    ASSERT_EQ(zh_iallreduce(self, in.data(), out.data(), world.rank() == 0 ? 4 : 2, ZH_DOUBLE, ZH_SUM, &request), 0);
    ASSERT_EQ(zh_wait(self, request, &status), 0);
    EXPECT_EQ(status.error, world.rank() == 0 ? -EINVAL : -EMSGSIZE);
    ASSERT_EQ(zh_iallreduce(self, in.data(), out.data(), 4, ZH_DOUBLE, ZH_SUM, &request), 0);
    while (zh_test(self, request, &status) == 0) zh_progress(self);
    EXPECT_EQ(status.error, 0);
    EXPECT_EQ(out[1], 4.0);
    EXPECT_EQ(zh_close(self), 0);
  });
}

}  // namespace
