// The C face with real processes: LiMIC's calls, wildcards, pieces, probe, cancel, errors.
#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
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

}  // namespace
