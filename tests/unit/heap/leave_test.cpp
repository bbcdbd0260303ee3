// What the calls that manage pages do to shared memory: taken away, replaced, dropped, protected, marked.
// label not-emulated: [.]Leave[.]
#include <utility>
#include <vector>

#include "heap_support.h"
#include "os/vm.h"

namespace zh::heap::test {
namespace {

constexpr size_t kLeaveBytes = 64 * kPage;
using Protection = Heap::Protection;

TEST(Leave, WhatComesBackIsPrivateAndComplete) {
  Heap& heap = fresh_heap();
  std::byte* p = shared(heap, 3 * kLeaveBytes, 4);
  SharedPlace place;
  ASSERT_TRUE(heap.locate(p, 3 * kLeaveBytes, &place));
  std::byte* seen = as_peer(heap, place);
  EXPECT_TRUE(heap.touches(p + kLeaveBytes, 1));
  ASSERT_TRUE(heap.come_back(p + kLeaveBytes + 1, kLeaveBytes - 2));
  EXPECT_FALSE(heap.touches(p + kLeaveBytes, kLeaveBytes));
  EXPECT_TRUE(heap.touches(p, kLeaveBytes));
  EXPECT_TRUE(holds(p, 3 * kLeaveBytes, 4));
  EXPECT_TRUE(is_plain(p + kLeaveBytes) && is_plain(p + 2 * kLeaveBytes - 1));
  EXPECT_TRUE(mapping_at(p).shared && mapping_at(p + 2 * kLeaveBytes).shared);
  p[kLeaveBytes] = std::byte{9};
  EXPECT_NE(seen[kLeaveBytes], std::byte{9});
  EXPECT_TRUE(holds(seen + kLeaveBytes, kLeaveBytes, 0)) << "its memory went back to the system";
  EXPECT_FALSE(heap.locate(p, 3 * kLeaveBytes, &place));
  EXPECT_EQ(heap.stats().returned_bytes, kLeaveBytes);
  EXPECT_EQ(heap.stats().shared_bytes, 2 * kLeaveBytes);
  EXPECT_EQ(heap.share(p, 3 * kLeaveBytes), Sharing::kMapped) << "and may be shared again";
  EXPECT_EQ(p[kLeaveBytes], std::byte{9});
}

TEST(Leave, WhatIsTakenAwayIsForgotten) {
  Heap& heap = fresh_heap();
  std::byte* p = shared(heap, 3 * kLeaveBytes, 4);
  SharedPlace place;
  ASSERT_TRUE(heap.locate(p, 3 * kLeaveBytes, &place));
  std::byte* seen = as_peer(heap, place);
  std::byte* const middle = p + kLeaveBytes;
  ASSERT_TRUE(heap.replace(middle, kLeaveBytes, [&] { return munmap(middle, kLeaveBytes) == 0; }));
  EXPECT_FALSE(heap.touches(middle, kLeaveBytes));
  EXPECT_TRUE(holds(seen + kLeaveBytes, kLeaveBytes, 0));
  EXPECT_TRUE(holds(p, kLeaveBytes, 4) && holds(p + 2 * kLeaveBytes, kLeaveBytes, 4));
  EXPECT_TRUE(in_fork(heap, [&] { return holds(p, kLeaveBytes, 4); }));
  ASSERT_TRUE(heap.replace(p, kLeaveBytes, [&] { return os::map_private_at(p, kLeaveBytes); }));
  EXPECT_TRUE(holds(p, kLeaveBytes, 0) && is_plain(p));
  EXPECT_EQ(heap.stats().shared_bytes, 0U);
}

TEST(Leave, ACallThatFailsChangesNothing) {
  Heap& heap = fresh_heap();
  constexpr size_t n = 16 << 20;
  std::byte* p = shared(heap, n, 4);
  heap.protect(p, kPage, Protection::kRead);
  ASSERT_EQ(mprotect(p, kPage, PROT_READ), 0);
  EXPECT_FALSE(heap.replace(p, n, [] { return false; }));
  SharedPlace place;
  EXPECT_TRUE(heap.locate(p + kPage, n - kPage, &place));
  EXPECT_FALSE(heap.locate(p, kPage, &place)) << "protected as before";
  const auto writable = [&] {
    p[kPage] = std::byte{4};
    p[n - 1] = std::byte{4};
    return holds(p, n, 4);
  };
  EXPECT_TRUE(in_fork(heap, writable));
  EXPECT_TRUE(writable());
}

TEST(Leave, DroppedContentsAreZerosThatCostNothing) {
  Heap& heap = fresh_heap();
  std::byte* p = shared(heap, kLeaveBytes, 4);
  heap.drop_contents(p + kPage, 2 * kPage);
  EXPECT_TRUE(holds(p, kPage, 4) && holds(p + kPage, 2 * kPage, 0) && holds(p + 3 * kPage, kLeaveBytes - 3 * kPage, 4));
  EXPECT_TRUE(is_plain(p + kPage));
  heap.protect(p + 4 * kPage, kPage, Protection::kRead);
  ASSERT_EQ(mprotect(p + 4 * kPage, kPage, PROT_READ), 0);
  heap.drop_contents(p, kLeaveBytes);
  EXPECT_TRUE(holds(p, kLeaveBytes, 0) && is_plain(p) && !mapping_at(p + 4 * kPage).writable);
  EXPECT_EQ(heap.stats().shared_bytes, 0U);
}

TEST(Leave, PagesThatLeftInAForkAreDroppedToo) {
  Heap& heap = fresh_heap();
  constexpr size_t n = 16 << 20;
  std::byte* p = shared(heap, n, 4);
  std::array<int, 2> go{};
  ASSERT_EQ(pipe(go.data()), 0);
  const Beside other;
  const pid_t child = fork_heap(heap);
  if (child == 0) {
    char byte = 0;
    (void)!read(go[0], &byte, 1);
    bool ok = holds(p, n, 4);
    // As madvise(MADV_DONTNEED) does: the file's pages show.
    if (madvise(p, kLeaveBytes, MADV_DONTNEED) != 0) _exit(2);
    heap.drop_contents(p, kLeaveBytes);
    ok = ok && holds(p, kLeaveBytes, 0) && holds(p + kLeaveBytes, n - kLeaveBytes, 4);
    _exit(ok ? 0 : 1);
  }
  std::memset(p, 8, n);
  EXPECT_EQ(heap.share(p, n), Sharing::kNot) << "the child may still see it";
  (void)!write(go[1], "x", 1);
  EXPECT_TRUE(ended_well(child));
}

TEST(Leave, ProtectedPagesAreOutOfReach) {
  Heap& heap = fresh_heap();
  std::byte* p = shared(heap, kLeaveBytes, 4);
  SharedPlace place;
  for (const Protection protection : {Protection::kNone, Protection::kRead}) {
    heap.protect(p + kPage, kPage, protection);
    EXPECT_FALSE(heap.locate(p, kLeaveBytes, &place));
    EXPECT_TRUE(heap.locate(p + 2 * kPage, kLeaveBytes - 2 * kPage, &place));
    EXPECT_EQ(heap.share(p, kLeaveBytes), Sharing::kNot);
    heap.protect(p, kLeaveBytes, Protection::kReadWrite);
    EXPECT_TRUE(heap.locate(p, kLeaveBytes, &place));
  }
}

TEST(Leave, ProtectedPagesComeBackProtected) {
  Heap& heap = fresh_heap();
  std::byte* p = shared(heap, kLeaveBytes, 4);
  heap.protect(p, 4 * kPage, Protection::kRead);
  ASSERT_EQ(mprotect(p, 4 * kPage, PROT_READ), 0);
  heap.protect(p + 4 * kPage, 4 * kPage, Protection::kNone);
  ASSERT_EQ(mprotect(p + 4 * kPage, 4 * kPage, PROT_NONE), 0);
  ASSERT_TRUE(heap.come_back(p, kLeaveBytes));
  EXPECT_FALSE(heap.holds_any());
  EXPECT_TRUE(mapping_at(p).readable && !mapping_at(p).writable);
  EXPECT_FALSE(mapping_at(p + 4 * kPage).readable);
  EXPECT_TRUE(is_plain(p + 8 * kPage));
  ASSERT_EQ(mprotect(p, kLeaveBytes, PROT_READ | PROT_WRITE), 0);
  EXPECT_TRUE(holds(p, kLeaveBytes, 4));
}

TEST(Leave, PlainStretchesAreThoseThatAreNotShared) {
  Heap& heap = fresh_heap();
  std::byte* p = filled(kLeaveBytes, 1);
  ASSERT_EQ(heap.share(p + 4 * kPage, 4 * kPage), Sharing::kMapped);
  ASSERT_EQ(heap.share(p + 10 * kPage, 4 * kPage), Sharing::kMapped);
  std::vector<std::pair<std::byte*, size_t>> seen;
  heap.for_each_private(p, 12 * kPage, false,
                        [&](void* at, size_t n) { seen.emplace_back(static_cast<std::byte*>(at), n); });
  size_t sum = 0;
  for (const auto& [at, n] : seen) sum += n;
  EXPECT_EQ(sum, 6 * kPage);
  EXPECT_EQ(seen.front().first, p);
}

}  // namespace
}  // namespace zh::heap::test
