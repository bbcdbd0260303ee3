// What a job's statistics (ZEROHOP_STATS, docs/user/statistics.md) say about the ways of its bytes. Read by `zerohop
// doctor`; refuses to judge.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace zh::tools {

struct RunStats {
  struct Way {
    std::string name;
    uint64_t bytes = 0;
    uint64_t messages = 0;
  };
  /// Collective calls of all ranks by function, way and number of members.
  struct Calls {
    std::string call;
    std::string by;
    uint64_t ranks = 0;
    uint64_t calls = 0;
    uint64_t bytes = 0;
  };
  std::vector<Calls> calls;  ///< most calls first
  // Empty or 0 in files of older versions.
  std::string host_version;
  std::string started;
  std::string written;
  std::string command;
  std::string end;
  uint64_t world_size = 0;
  std::vector<Way> ways;                ///< of the messages sent inside nodes, most bytes first; none without bytes
  uint64_t bytes = 0;                   ///< their sum
  uint64_t messages = 0;                ///< theirs, and those without bytes
  uint64_t messages_between_nodes = 0;  ///< the host's, of ranks that the file has
  std::map<std::string, uint64_t> left_to_host;  ///< why, and how often
  uint64_t ranks = 0;
  bool heap = false;                 ///< a rank had a shared heap
  std::string heap_declined;         ///< why no more became shared, of the first rank that says so
  uint64_t ranks_declined = 0;       ///< how many say so
  uint64_t heap_declined_bytes = 0;  ///< buffers that were to become shared and could not
  uint64_t heap_returned_bytes = 0;  ///< made private again
  uint64_t forks = 0;
  uint64_t ranks_without_heap = 0;  ///< whose program's memory was left alone
  std::string heap_refused;         ///< why a buffer had to stay private, the latest of the first rank that says so
  uint64_t busy_ranks = 0;          ///< that found others wanting their CPU
  uint64_t heap_first_uses = 0;     ///< of buffers, before the one at which they become shared
  uint64_t heap_saved_ns = 0;       ///< by shared buffers, of all ranks
  uint64_t heap_spent_ns = 0;       ///< on making them so
  uint64_t windows_refused = 0;     ///< of peers' memory, that could not be mapped
  uint64_t revoked = 0;             ///< mapped buffers that a peer took back while they were used
  uint64_t small_bytes = 0;         ///< in messages too small to be mapped

  /// Share of the bytes that went through memory which both sides map, 0 to 1.
  [[nodiscard]] double mapped_share() const;
};

/// False if `document` is not what ZEROHOP_STATS writes.
[[nodiscard]] bool read_run(const nlohmann::json& document, RunStats* out);

}  // namespace zh::tools
