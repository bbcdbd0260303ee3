// What joining needs from outside: collectives over all ranks of the job. Implemented by the shim (the host's), by the
// C face and by tests; called while a job starts. It refuses to know what is told.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/status.h"

namespace zh::node {

/// A job may have 192,000 ranks, of which 192 share a node's memory: what is told to all of them is a few bytes a rank.
class Bootstrap {
 public:
  virtual ~Bootstrap() = default;
  [[nodiscard]] virtual int rank() const = 0;  ///< in the world, 0 <= rank < size
  [[nodiscard]] virtual int size() const = 0;
  /// out[i * bytes .. +bytes) = rank i's `in`, on every rank.
  virtual Status allgather(const void* in, size_t bytes, void* out) = 0;
  /// values[i] = the least of all ranks' values[i], on every rank. Nobody returns before all have called.
  virtual Status least(std::span<uint64_t> values);
  /// Called by all ranks, each with the list that it is in (world ranks, ascending); no rank is in two. `*out` is a
  /// collective among these, in that order, or null: then this one has to serve, with everybody in it.
  virtual Status among(std::span<const int> ranks, std::unique_ptr<Bootstrap>* out);

  /// Rank `root`'s bytes, on every rank.
  Status broadcast(int root, void* data, size_t bytes);
  /// Rank `culprit`'s failure, on every rank.
  Status tell(int culprit, const Status& mine);
};

/// Status holds static texts; a reason that came from another process is kept for the rest of this one.
const char* keep_text(const std::string& text);
/// The same failure, with the rank in its text.
Status failure_of(int rank, const Status& failure);

}  // namespace zh::node
