// What the fuzzers share: how long one may run, its seed, a child process for what may crash or hang, mutation of
// bytes, the corpus. It refuses to know what is fuzzed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "support/folder.h"

namespace zh::test {

/// Seed of this run: ZH_TEST_SEED, else drawn; printed, so that a failure can be repeated.
[[nodiscard]] uint64_t fuzz_seed();

/// The time of one fuzzer: ZH_FUZZ_SECONDS, default 2.
class FuzzClock {
 public:
  FuzzClock();
  [[nodiscard]] bool over() const;

 private:
  uint64_t end_ns_;
};

/// Runs `body` in a child process. What it returned ("" = fine), or how it ended, or that it did not.
[[nodiscard]] std::string in_child(const std::function<std::string()>& body, int timeout_s);

/// A few random edits: bytes, stretches taken out, doubled or exchanged, words of `words` put in, the end cut off.
[[nodiscard]] std::string mutated(std::string text, std::mt19937_64& rng, const std::vector<std::string>& words);

/// The files of tests/fuzz/corpus/<folder>, sorted.
[[nodiscard]] std::vector<std::filesystem::path> corpus(const std::string& folder);
[[nodiscard]] std::string whole_file(const std::filesystem::path& path);

}  // namespace zh::test
