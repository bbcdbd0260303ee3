// Lines that fit the terminal. Called by the subcommands that print findings; refuses to know what they say.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace zh::tools {

/// Columns of a line of output: the terminal's, 80 where it is none. Never less than 40.
[[nodiscard]] size_t output_columns();
/// Columns that a text in UTF-8 takes.
[[nodiscard]] size_t columns_of(std::string_view text);
/// `text` broken at blanks into lines of at most `columns`; later lines start with `indent` blanks. `used`: columns of
/// the first line that are taken. A word that is longer than a line, such as a path, stays whole.
[[nodiscard]] std::string wrapped(std::string_view text, size_t used, size_t indent, size_t columns);
/// `head`, then `text` wrapped behind it and below itself, and the end of the line.
[[nodiscard]] std::string hanging(const std::string& head, std::string_view text, size_t columns);

}  // namespace zh::tools
