// The answer to `zerohop info --collective`: which algorithm a schedule of this call is made by, and which source said
// so. Called by info.cpp; runs nothing.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/options.h"
#include "coll/algorithms/precedence.h"

namespace zh::tools {

/// A call with uniform pieces and, if it reduces, a predefined operation on 8-byte elements.
struct ChoiceQuestion {
  coll::Collective collective = coll::Collective::kBarrier;
  uint64_t bytes = 0;  ///< of the vector, or of a rank's piece
  uint32_t ranks = 2;
  uint32_t nodes = 1;
};
/// Why there is no such call, "" if there is.
[[nodiscard]] std::string fault_of(const ChoiceQuestion& question);

/// What decides.
struct ChoiceFacts {
  coll::Precedence precedence;
  uint64_t chunk_bytes = 0;             ///< the setting chunk
  bool serves = true;                   ///< neither ZEROHOP_ENABLE nor ZEROHOP_COLLECTIVES is 0
  std::vector<std::string> complaints;  ///< what is not obeyed
};
/// Of a job that starts on this machine under a host of this ABI.
[[nodiscard]] ChoiceFacts facts_of(const Options& options, std::string_view abi);

/// "algorithm" and "chunk_bytes" in force, their "source"; "sources": the word of each, in order; "blocking" and
/// "nonblocking": who serves such a call, "team", "team-if-apart" (ranks that mostly share no cache), "schedule" or
/// "host".
[[nodiscard]] nlohmann::json choice_json(const ChoiceQuestion& question, const ChoiceFacts& facts);

/// `answers`: by ABI; those that are alike are told once.
[[nodiscard]] std::string choice_text(const ChoiceQuestion& question, const nlohmann::json& answers, size_t columns);

}  // namespace zh::tools
