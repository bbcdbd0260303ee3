// Selection: a table of which algorithm serves a collective by a schedule, and in which chunks. `zerohop bench
// algorithms` writes what was measured on a machine, `zerohop tune --model` what a model predicts of it; rank 0 reads
// both when the job begins and gives them to all ranks. It refuses to know how it was found, and which table counts
// more (precedence.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "coll/algorithms/algorithms.h"
#include "tune/profile.h"

namespace zh::coll {

constexpr std::string_view kMeasuredHeading =
    "# Algorithms of collectives, measured by `zerohop bench algorithms --save`.\n";

class Selection {
 public:
  /// From `from_bytes` (of the vector, or of a piece) on, up to the next entry of the same collective, ranks and kind
  /// of layout. Holds for jobs of `ranks` ranks and more, up to the next larger number that was measured. Of two that
  /// begin at the same size, the first holds.
  struct Entry {
    Collective collective;
    uint32_t ranks;
    bool several_nodes;
    uint64_t from_bytes;
    const Algorithm* algorithm;                          ///< null: the host's own collective
    std::optional<uint64_t> chunk_bytes = std::nullopt;  ///< 0: whole; nothing: that of the setting chunk
  };

  void add(const Entry& entry) { entries_.push_back(entry); }
  /// Puts the entries of `other` in the place of those of the same collective, ranks and kind of layout.
  void replace(const Selection& other);
  /// Null if there is none for it or it does not fit. The same on all ranks.
  [[nodiscard]] const Entry* find(const Problem& problem) const;

  [[nodiscard]] const std::vector<Entry>& entries() const { return entries_; }

  /// Of a file as text() makes it. Empty afterwards if there is none (kWouldBlock), or if it is not one (kInvalid;
  /// `why`, if it is not null, gets one line: file, line, what is wrong).
  Status load(const std::string& path, std::string* why = nullptr);
  /// Lines "collective ranks one|several bytes algorithm [chunk]"; '#' starts a comment. As load().
  Status parse(std::string_view text, std::string* why = nullptr);
  /// `heading`: lines of comments, each with its end, that say where the table comes from.
  [[nodiscard]] std::string text(std::string_view heading = kMeasuredHeading) const;

 private:
  std::vector<Entry> entries_;
};

/// What stands for the host's own collective in tables and variables.
constexpr std::string_view kHostAlgorithm = "host";

/// The ABIs of hosts.
constexpr std::string_view kAbis[] = {"mpich", "ompi", "abi"};

/// The file of this machine for hosts of one ABI in a folder as tune::kept_folders() has them; "" without a folder.
/// Messages between nodes are the host's, so each has its own.
[[nodiscard]] std::string selection_path(const std::string& folder, std::string_view abi);
/// The same of the table by a model.
[[nodiscard]] std::string model_selection_path(const std::string& folder, std::string_view abi);

/// The files that are read.
[[nodiscard]] std::string selection_path(const tune::KeptFolders& folders, std::string_view abi);
[[nodiscard]] std::string model_selection_path(const tune::KeptFolders& folders, std::string_view abi);

}  // namespace zh::coll
