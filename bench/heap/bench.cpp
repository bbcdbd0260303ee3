// See bench.h.
#include "bench.h"

#include <dirent.h>
#include <pthread.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace zh::heap_bench {

double now_s() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

size_t parse_size(const std::string& text) {
  char* end = nullptr;
  size_t n = strtoull(text.c_str(), &end, 10);
  if (*end == 'K') n <<= 10, ++end;
  if (*end == 'M') n <<= 20, ++end;
  if (*end == 'G') n <<= 30, ++end;
  if (n == 0 || *end != 0) {
    fprintf(stderr, "not a size: %s\n", text.c_str());
    exit(2);
  }
  return n;
}

std::string option(int argc, char** argv, const char* name, const char* otherwise) {
  for (int i = 1; i + 1 < argc; i += 2)
    if (strcmp(argv[i], name) == 0) return argv[i + 1];
  return otherwise;
}

void in_threads(int n, const std::function<void(int)>& body) {
  if (n == 1) return body(0);
  struct Start {
    const std::function<void(int)>* body;
    int index;
    pthread_barrier_t* begin;
  };
  pthread_barrier_t begin;
  pthread_barrier_init(&begin, nullptr, static_cast<unsigned>(n));
  std::vector<pthread_t> threads(static_cast<size_t>(n));
  std::vector<Start> starts(static_cast<size_t>(n));
  for (int i = 0; i < n; ++i) {
    Start& start = starts[static_cast<size_t>(i)];
    start = {&body, i, &begin};
    const int made = pthread_create(
        &threads[static_cast<size_t>(i)], nullptr,
        [](void* argument) -> void* {
          auto* s = static_cast<Start*>(argument);
          pthread_barrier_wait(s->begin);
          (*s->body)(s->index);
          return nullptr;
        },
        &start);
    if (made != 0) abort();
  }
  for (const pthread_t thread : threads) pthread_join(thread, nullptr);
  pthread_barrier_destroy(&begin);
}

uint64_t memory_bytes() {
  // Mappings of a memory file count in smaps with what is mapped of it; the rest of its blocks are memory all the same.
  uint64_t pss = 0;
  uint64_t mapped = 0;
  bool ours = false;
  FILE* smaps = fopen("/proc/self/smaps", "r");
  if (smaps == nullptr) return 0;
  char line[1024];
  while (fgets(line, sizeof line, smaps) != nullptr) {
    unsigned long kib = 0;
    unsigned long from = 0;
    unsigned long to = 0;
    if (sscanf(line, "%lx-%lx ", &from, &to) == 2)
      ours = strstr(line, "memfd:") != nullptr && strstr(line, "zerohop") != nullptr;
    else if (sscanf(line, "Pss: %lu kB", &kib) == 1)
      pss += kib << 10;
    else if (ours && sscanf(line, "Rss: %lu kB", &kib) == 1)
      mapped += kib << 10;
  }
  fclose(smaps);
  uint64_t backed = 0;
  if (DIR* folder = opendir("/proc/self/fd"); folder != nullptr) {
    while (const dirent* entry = readdir(folder)) {
      char name[256];
      const ssize_t n = readlinkat(dirfd(folder), entry->d_name, name, sizeof name - 1);
      if (n <= 0) continue;
      name[n] = 0;
      struct stat about {};
      if (strstr(name, "memfd:") != nullptr && strstr(name, "zerohop") != nullptr &&
          fstatat(dirfd(folder), entry->d_name, &about, 0) == 0)
        backed += static_cast<uint64_t>(about.st_blocks) * 512;
    }
    closedir(folder);
  }
  return pss + (backed > mapped ? backed - mapped : 0);
}

bool in_heap(const void* p) {
  FILE* maps = fopen("/proc/self/maps", "r");
  if (maps == nullptr) return false;
  char line[1024];
  bool found = false;
  while (!found && fgets(line, sizeof line, maps) != nullptr) {
    unsigned long from = 0;
    unsigned long to = 0;
    const auto address = reinterpret_cast<uintptr_t>(p);
    if (sscanf(line, "%lx-%lx ", &from, &to) != 2 || address < from || address >= to) continue;
    found = strstr(line, "memfd:") != nullptr && strstr(line, "zerohop") != nullptr;
    break;
  }
  fclose(maps);
  return found;
}

void print(const Result& r) {
  printf("{\"name\": \"%s\", \"value\": %.6g, \"unit\": \"%s\", \"memory_bytes\": %lu, \"served\": %s}\n",
         r.name.c_str(), r.value, r.unit, r.memory_bytes, r.served ? "true" : "false");
}

}  // namespace zh::heap_bench
