// See text.h.
#include "tools/cli/text.h"

#include <fmt/format.h>

#include <algorithm>

#include "os/terminal.h"

namespace zh::tools {
namespace {

constexpr size_t kUsualColumns = 80;
constexpr size_t kLeastColumns = 40;

}  // namespace

size_t output_columns() {
  const size_t columns = os::terminal_columns();
  return columns == 0 ? kUsualColumns : std::max(columns, kLeastColumns);
}

size_t columns_of(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

std::string wrapped(std::string_view text, size_t used, size_t indent, size_t columns) {
  std::string out;
  bool at_start = true;
  for (size_t at = 0; at < text.size();) {
    const size_t word_at = text.find_first_not_of(' ', at);
    if (word_at == std::string_view::npos) break;
    const size_t end = std::min(text.find(' ', word_at), text.size());
    const std::string_view word = text.substr(word_at, end - word_at);
    const size_t blanks = at_start ? 0 : word_at - at;
    if (!at_start && used + blanks + columns_of(word) > columns) {
      out += "\n" + std::string(indent, ' ');
      used = indent;
    } else {
      out.append(blanks, ' ');
      used += blanks;
    }
    out += word;
    used += columns_of(word);
    at = end;
    at_start = false;
  }
  return out;
}

std::string hanging(const std::string& head, std::string_view text, size_t columns) {
  const size_t indent = columns_of(head);
  return head + wrapped(text, indent, indent, columns) + "\n";
}

std::string duration(uint64_t ns) {
  const double s = static_cast<double>(ns) * 1e-9;
  if (s < 9.95) return fmt::format("{:.1f} s", s);
  if (s < 120) return fmt::format("{:.0f} s", s);
  return s < 7200 ? fmt::format("{:.0f} min", s / 60) : fmt::format("{:.1f} h", s / 3600);
}

std::string Table::text() const {
  std::vector<size_t> widths;
  for (const std::vector<std::string>& row : rows_) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], columns_of(row[i]));
  }
  std::string out;
  for (const std::vector<std::string>& row : rows_) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string blanks(widths[i] - columns_of(row[i]), ' ');
      line += (i == 0 ? "" : "  ") + (i < left_ ? row[i] + blanks : blanks + row[i]);
    }
    out += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return out;
}

}  // namespace zh::tools
