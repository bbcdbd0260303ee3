// The answer to `zerohop info --collective`: which algorithm a schedule of this call is made by, which source said so,
// and by how much it is ahead where that is known. Called by info.cpp; runs nothing.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "base/options.h"
#include "coll/algorithms/precedence.h"
#include "coll/algorithms/tiles.h"
#include "model/parameters.h"

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
  uint64_t chunk_bytes = 0;                  ///< ZEROHOP_CHUNK
  bool serves = true;                        ///< neither ZEROHOP_ENABLE nor ZEROHOP_COLLECTIVES is 0
  coll::Tiles tiles;                         ///< of this machine
  std::optional<model::Parameters> profile;  ///< of the table by a model
  std::string no_profile;                    ///< why there is none
  std::vector<std::string> complaints;       ///< what is not obeyed
};
/// Of a job that starts on this machine under a host of this ABI.
[[nodiscard]] ChoiceFacts facts_of(const Options& options, std::string_view abi, const coll::Tiles& tiles);

/// "algorithm" and "chunk_bytes" in force, their "source"; "sources": the word of each, in order; "blocking" and
/// "nonblocking": who serves such a call, "team", "team-if-apart" (ranks that mostly share no cache), "schedule" or
/// "host"; "times": predictions for the algorithm in force and for the fastest other one.
[[nodiscard]] nlohmann::json choice_json(const ChoiceQuestion& question, const ChoiceFacts& facts);

/// `answers`: by ABI; those that are alike are told once.
[[nodiscard]] std::string choice_text(const ChoiceQuestion& question, const nlohmann::json& answers, size_t columns);

}  // namespace zh::tools
