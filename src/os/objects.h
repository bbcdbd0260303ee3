// The writable global data of the executable and of the shared objects that are loaded, and what is behind its pages.
// Called by src/heap. Nothing here allocates.
#pragma once

#include <cstddef>
#include <cstdint>

namespace zh::os {

/// [from, to), whole pages.
struct Range {
  uintptr_t from = 0;
  uintptr_t to = 0;
};

/// One object's writable data: `initialised` comes from the file (without what is read-only after relocation), `zeroed`
/// starts as zero (bss).
struct ObjectData {
  const char* name = "";  ///< "" for the executable
  Range initialised;
  Range zeroed;
};

/// Objects loaded now. Those loaded with the program are the first of them for as long as it runs.
[[nodiscard]] uint32_t count_objects();
/// visit(data, argument) for each of the first n objects with any; stops when it returns false.
void for_each_object(uint32_t n, bool (*visit)(const ObjectData&, void*), void* argument);

enum class PageState : uint8_t {
  kUntouched,  ///< nothing is behind it yet
  kPrivate,    ///< memory that only this mapping has (or its copy in the swap)
  kFile,       ///< a page of a file or of shared memory
};
/// What is behind this process's pages (/proc/self/pagemap, opened when it is first asked).
class PageStates {
 public:
  PageStates() = default;
  ~PageStates();
  PageStates(const PageStates&) = delete;
  PageStates& operator=(const PageStates&) = delete;

  /// Of n pages from `at` on; false if the system does not tell.
  bool states(const void* at, size_t n, PageState* out);

 private:
  int fd_ = -1;
};

}  // namespace zh::os
