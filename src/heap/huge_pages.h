// What the system's settings mean for shared memory: where private memory would get huge pages and shared memory would
// not, a program computes faster in private memory. Read once, when the heap is first used.
#pragma once

#include <cstdint>

namespace zh::heap {

constexpr uint64_t kHugePage = 2 << 20;

/// Allocations from this size on are better left to libc; 0 = none.
[[nodiscard]] uint64_t private_only_from();
/// Private memory gets huge pages where a program asks for them (madvise), or everywhere.
[[nodiscard]] bool private_memory_has_huge_pages();
/// Shared memory gets huge pages where a program asks for them (madvise), or everywhere.
[[nodiscard]] bool shared_memory_has_huge_pages();
/// vm.overcommit_memory = 2: memory is counted when it is mapped, and shared sparse files only when they are touched.
[[nodiscard]] bool strict_overcommit();

}  // namespace zh::heap
