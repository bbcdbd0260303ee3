// Lines that fit the terminal, and tables. Called by the subcommands that print findings; refuses to know what they
// say.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace zh::tools {

/// Columns of a line of output: the terminal's, 80 where it is none. Never less than 40.
[[nodiscard]] size_t output_columns();
constexpr size_t kAnyColumns = SIZE_MAX;
/// Columns of what is cut or broken only for the eye, such as a table: the terminal's, any number where it is none.
[[nodiscard]] size_t shown_columns();
/// Columns that a text in UTF-8 takes.
[[nodiscard]] size_t columns_of(std::string_view text);
/// `text` broken at blanks into lines of at most `columns`; later lines start with `indent` blanks. `used`: columns of
/// the first line that are taken. Of words that are longer than a line, lists are broken at their commas; others, such
/// as a path, stay whole. Control characters, which a terminal would obey, are spelled out.
[[nodiscard]] std::string wrapped(std::string_view text, size_t used, size_t indent, size_t columns);
/// `head`, then `text` wrapped behind it and below itself, and the end of the line.
[[nodiscard]] std::string hanging(const std::string& head, std::string_view text, size_t columns);

/// `text`, each of its lines broken below itself, or below its explanation that follows two blanks. `prose`: the lines
/// of a paragraph are one line.
[[nodiscard]] std::string fitted(std::string_view text, size_t columns, bool prose = true);
/// Prints it, its lines broken where a terminal has no room for them.
void print_shown(const std::string& text);
/// Prints text that is no table: its lines are broken where the output's columns end.
void print_fitted(const std::string& text);
/// "0 B", "14 B", "896 KiB": exact.
[[nodiscard]] std::string size_text(uint64_t bytes);

/// "0.4 s", "12 s", "3 min", "2.5 h".
[[nodiscard]] std::string duration(uint64_t ns);

/// Columns as wide as their widest cell: the first `left` to the left, the others to the right.
class Table {
 public:
  explicit Table(std::vector<std::string> heads, size_t left = 1) : left_(left), rows_({std::move(heads)}) {}
  void add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  [[nodiscard]] bool empty() const { return rows_.size() < 2; }
  /// Heads and rows, each with the end of its line. What is wider than `columns` goes on in a second table below, which
  /// has the first `left` columns again.
  [[nodiscard]] std::string text(size_t columns = shown_columns()) const;

 private:
  size_t left_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace zh::tools
