// What the heap's benchmarks share: clocks, threads, the memory of the process and the one line of JSON that each
// prints. They measure ordinary programs and know nothing of zerohop but the name of its memory files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

namespace zh::heap_bench {

double now_s();

/// "16", "40K", "1M"; ends the program on anything else.
size_t parse_size(const std::string& text);

/// Value of `--name` among the arguments, or `otherwise`.
std::string option(int argc, char** argv, const char* name, const char* otherwise);

/// Runs body(thread) in n threads that begin together and returns when all are done.
void in_threads(int n, const std::function<void(int)>& body);

/// Memory of this process in bytes: PSS, and what memory files of zerohop hold without its being mapped here.
uint64_t memory_bytes();
/// Is `p` in a memory file of zerohop?
bool in_heap(const void* p);

struct Result {
  std::string name;
  double value = 0;  ///< less is better
  const char* unit = "";
  uint64_t memory_bytes = 0;
  bool served = false;  ///< by zerohop's heap
};
void print(const Result& result);

}  // namespace zh::heap_bench
