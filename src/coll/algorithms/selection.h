// Selection: which algorithm serves a collective by a schedule, as measured on a machine. `zerohop bench algorithms`
// writes it, rank 0 reads it when the job begins and gives it to all ranks. It refuses to know how it was measured;
// where it has no word, coll::choose() has (algorithms.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "coll/algorithms/algorithms.h"

namespace zh::coll {

class Selection {
 public:
  /// From `from_bytes` (of the vector, or of a piece) on, up to the next entry of the same collective, ranks and kind
  /// of layout. Holds for jobs of `ranks` ranks and more, up to the next larger number that was measured.
  struct Entry {
    Collective collective;
    uint32_t ranks;
    bool several_nodes;
    uint64_t from_bytes;
    const Algorithm* algorithm;  ///< null: the host's own collective
  };

  void add(const Entry& entry) { entries_.push_back(entry); }
  /// Puts the entries of `other` in the place of those of the same collective, ranks and kind of layout.
  void replace(const Selection& other);
  /// Nothing if nothing was measured for it or what was does not fit. The same on all ranks.
  [[nodiscard]] std::optional<const Algorithm*> find(const Problem& problem) const;

  [[nodiscard]] const std::vector<Entry>& entries() const { return entries_; }

  /// Of a file as text() makes it. Empty afterwards if there is none (kWouldBlock), or if it is not one (kInvalid).
  Status load(const std::string& path);
  /// Lines "collective ranks one|several bytes algorithm"; '#' starts a comment.
  Status parse(std::string_view text);
  [[nodiscard]] std::string text() const;

 private:
  std::vector<Entry> entries_;
};

/// What stands for the host's own collective in tables and variables.
constexpr std::string_view kHostAlgorithm = "host";

/// The file of this machine for hosts of one ABI ("mpich", "ompi", "abi") in the folder of the calibration cache
/// (tune::cache_folder()); "" without a folder. Messages between nodes are the host's, so each has its own.
[[nodiscard]] std::string selection_path(const std::string& folder, std::string_view abi);

}  // namespace zh::coll
