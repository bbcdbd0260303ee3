#include "node/bootstrap.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <set>
#include <vector>

namespace zh::node {

const char* keep_text(const std::string& text) {
  static std::mutex mutex;
  static std::set<std::string> kept;
  const std::lock_guard<std::mutex> lock(mutex);
  return kept.insert(text).first->c_str();
}

Status failure_of(int rank, const Status& failure) {
  return {failure.code(), keep_text("rank " + std::to_string(rank) + ": " + failure.what()), failure.error()};
}

Status Bootstrap::least(std::span<uint64_t> values) {
  std::vector<uint64_t> all(values.size() * static_cast<size_t>(size()));
  if (Status s = allgather(values.data(), values.size_bytes(), all.data()); !s.ok()) return s;
  for (size_t i = 0; i < all.size(); ++i) {
    uint64_t& value = values[i % values.size()];
    value = std::min(value, all[i]);
  }
  return kOk;
}

Status Bootstrap::among(std::span<const int> /*ranks*/, std::unique_ptr<Bootstrap>* out) {
  out->reset();
  return kOk;
}

Status Bootstrap::broadcast(int root, void* data, size_t bytes) {
  std::vector<uint64_t> words((bytes + sizeof(uint64_t) - 1) / sizeof(uint64_t), ~uint64_t{0});
  if (rank() == root) std::memcpy(words.data(), data, bytes);
  if (Status s = least(words); !s.ok()) return s;
  std::memcpy(data, words.data(), bytes);
  return kOk;
}

Status Bootstrap::tell(int culprit, const Status& mine) {
  struct Failure {
    int32_t code;
    int32_t error;
    char what[200];
  };
  Failure told{static_cast<int32_t>(mine.code()), mine.error(), {}};
  std::snprintf(told.what, sizeof told.what, "%s", mine.what());
  if (Status s = broadcast(culprit, &told, sizeof told); !s.ok()) return s;
  told.what[sizeof told.what - 1] = '\0';
  const auto code = static_cast<Code>(told.code);
  return {code == Code::kOk ? Code::kIo : code, keep_text(told.what), told.error};
}

}  // namespace zh::node
