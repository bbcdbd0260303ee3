// How wide lines may be where the standard output goes. Called by the tools.
#pragma once

#include <cstdint>

namespace zh::os {

/// Columns of the terminal that is the standard output; 0 if it is none, or does not say.
[[nodiscard]] uint32_t terminal_columns();

}  // namespace zh::os
