// The shared heap's section of `zerohop info`. Called by info.cpp.
#pragma once

#include <nlohmann/json.hpp>

#include "heap_facts.h"

namespace zh::tools {

[[nodiscard]] nlohmann::json heap_section(const HeapFacts& facts);
void print_heap_section(const nlohmann::json& section);

}  // namespace zh::tools
