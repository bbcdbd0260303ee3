// Parameter sets of the models as JSON: which one is meant, how it is written, and what is wrong with a file that is
// none. The schema is in docs/design/models.md. It refuses to know what the figures are for.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "model/parameters.h"

namespace zh::tools {

[[nodiscard]] nlohmann::json profile_json(const model::Parameters& parameters);
/// Which one a result was made with: name, about and sources.
[[nodiscard]] nlohmann::json profile_origin_json(const model::Parameters& parameters);

/// A set from its document. Nothing if the document is none, or holds what no machine can have: `*problem` says where
/// and what mends it.
[[nodiscard]] std::optional<model::Parameters> profile_from(const nlohmann::json& document, std::string* problem);

/// The built-in set of that name, else the one in the file of that name; a file "./x" is never taken for a built-in
/// one.
[[nodiscard]] std::optional<model::Parameters> find_profile(const std::string& name_or_file, std::string* problem);

/// "gigabit-like, infiniband-ddr-like".
[[nodiscard]] std::string built_in_names();

}  // namespace zh::tools
