// Which algorithm a schedule is made by: the first that has a word of a variable, the measured table, the table by a
// model, and choose(). All ranks hold the same and so come to the same. Asked by choose(), for each
// new plan of engine::Collectives, and by `zerohop info`; refuses to know where the tables come from.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "coll/algorithms/selection.h"

namespace zh::coll {

constexpr size_t kCollectives = static_cast<size_t>(Collective::kCount);

/// Nothing: none was named. Null: the host's own collective.
using NamedAlgorithm = std::optional<const Algorithm*>;

using NamedAlgorithms = std::array<NamedAlgorithm, kCollectives>;

/// What ZEROHOP_ALGORITHM names: "bcast:leader-ring,allreduce:host"; "auto" and "" name nothing. `faults` gets a line
/// for each part that cannot be obeyed.
[[nodiscard]] NamedAlgorithms read_names(std::string_view text, std::vector<std::string>* faults);

/// `faults` gets a line for each of these that takes no notice of the setting chunk, if that is not 0.
void find_uncut(const NamedAlgorithms& named, uint64_t chunk_bytes, std::vector<std::string>* faults);

enum class ChosenBy : uint8_t { kVariable, kMeasured, kModel, kDefault };
/// "variable", "measured", "model", "default".
[[nodiscard]] std::string_view name_of(ChosenBy by);

struct AlgorithmChoice {
  const Algorithm* algorithm = nullptr;  ///< null: the host's own collective
  uint64_t chunk_bytes = 0;              ///< 0: whole
  ChosenBy by = ChosenBy::kDefault;
};

/// Ranks may take each other's call for one of another length, which is an error: only what is so for all lengths is
/// the same for them.
enum class HostLeads : uint8_t { kNever, kSometimes, kAlways };

/// The chunk of a vector where nobody has set one: that of a table or the default, or what makes 256 pieces. A rank
/// that waits for a piece may sleep for it: measured, a reduction of 64 MiB, 2 nodes of 2 ranks on 2 busy processors,
/// in 256 pieces takes 0.37 s and in 1,024 pieces 1.75 s.
[[nodiscard]] uint64_t unasked_chunk(uint64_t chunk_bytes, uint64_t vector_bytes);

struct Precedence {
  NamedAlgorithms named{};   ///< see named_for()
  Selection measured;        ///< by `zerohop bench algorithms --save`
  Selection modelled;        ///< by `zerohop tune --model --save`
  uint64_t chunk_bytes = 0;  ///< the setting chunk, or its default
  bool chunk_set = false;    ///< the setting chunk is given: it counts more than the chunks of tables

  /// What a variable names; nothing where there is none for the collective.
  [[nodiscard]] NamedAlgorithm named_for(Collective collective) const {
    const auto place = static_cast<size_t>(collective);
    return place < named.size() ? named[place] : std::nullopt;
  }
  /// Always one that fits. problem.chunk_bytes is that of the setting chunk; the choice has the one to build with,
  /// which the entry of a table may have of its own. O(entries).
  [[nodiscard]] AlgorithmChoice choose(const Problem& problem) const;
  /// Whether that is kHostLeaders for this call and those that differ from it by length. O(entries).
  [[nodiscard]] HostLeads host_leads(const Problem& problem) const;
};

}  // namespace zh::coll
