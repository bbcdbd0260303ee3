// See text.h.
#include "tools/cli/text.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/options.h"
#include "os/terminal.h"

namespace zh::tools {
namespace {

constexpr size_t kUsualColumns = 80;
constexpr size_t kLeastColumns = 40;
constexpr size_t kLeastRoom = 20;  ///< columns of an explanation; where there are fewer beside it, it goes below
constexpr size_t kBelow = 6;

/// Where the rest of a long line goes: below its explanation, which follows two blanks or more, else below its start.
size_t indent_of(std::string_view line) {
  const size_t start = std::min(line.find_first_not_of(' '), line.size());
  const size_t gap = line.find("  ", start);
  const size_t explanation = gap == std::string_view::npos ? gap : line.find_first_not_of(' ', gap);
  return explanation == std::string_view::npos ? start : explanation;
}

/// The next line of `text`, which is then gone from it.
std::string_view take_line(std::string_view* text) {
  const size_t end = std::min(text->find('\n'), text->size());
  const std::string_view line = text->substr(0, end);
  text->remove_prefix(std::min(end + 1, text->size()));
  return line;
}

/// Whether a line is one of a paragraph, whose ends of lines mean nothing.
bool is_prose(std::string_view line) {
  return !line.empty() && line[0] != ' ' && line[0] != '\n' && !line.starts_with("Usage:");
}

/// The characters that a terminal obeys, such as names that others have chosen may hold, in digits.
std::string spelled_out(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    const bool two = c == 0xC2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xA0;
    const bool obeyed = two || c < ' ' || c == 0x7F;
    out += obeyed ? fmt::format("\\u{:04x}", two ? static_cast<unsigned char>(text[++i]) : c) : std::string(1, text[i]);
  }
  return out;
}

}  // namespace

size_t output_columns() {
  const size_t columns = os::terminal_columns();
  return columns == 0 ? kUsualColumns : std::max(columns, kLeastColumns);
}

size_t shown_columns() { return os::terminal_columns() == 0 ? kAnyColumns : output_columns(); }

size_t columns_of(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

std::string wrapped(std::string_view text, size_t used, size_t indent, size_t columns) {
  const std::string plain = spelled_out(text);
  text = plain;
  std::string out;
  bool at_start = true;
  for (size_t at = 0; at < text.size();) {
    const size_t word_at = text.find_first_not_of(' ', at);
    if (word_at == std::string_view::npos) break;
    size_t end = std::min(text.find(' ', word_at), text.size());
    if (indent + end - word_at > columns) {
      const size_t comma = text.rfind(',', word_at + columns - indent - 1);
      if (comma != std::string_view::npos && comma > word_at) end = comma + 1;
    }
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

std::string fitted(std::string_view text, size_t columns, bool prose) {
  std::string out;
  while (!text.empty()) {
    std::string line(take_line(&text));
    while (prose && is_prose(line) && is_prose(text)) line += " " + std::string(take_line(&text));
    const size_t indent = indent_of(line);
    if (columns_of(line) > columns) {
      const size_t at = indent + kLeastRoom <= columns ? indent : kBelow;
      std::string head = line.substr(0, indent);
      if (at != indent) head.resize(head.find_last_not_of(' ') + 1);
      if (at != indent) head = fitted(head, columns, false) + std::string(at, ' ');
      line = head + wrapped(std::string_view(line).substr(indent), at, at, columns);
    }
    out += line + '\n';
  }
  return out;
}

void print_shown(const std::string& text) { fmt::print("{}", fitted(text, shown_columns(), false)); }

void print_fitted(const std::string& text) { fmt::print("{}", fitted(text, output_columns(), false)); }

std::string size_text(uint64_t bytes) {
  const std::string text = format_size(bytes);
  if (text.back() >= '0' && text.back() <= '9') return text + " B";
  return text.substr(0, text.size() - 1) + " " + text.back() + "iB";
}

std::string duration(uint64_t ns) {
  const double s = static_cast<double>(ns) * 1e-9;
  if (s < 9.95) return fmt::format("{:.1f} s", s);
  if (s < 120) return fmt::format("{:.0f} s", s);
  return s < 7200 ? fmt::format("{:.0f} min", s / 60) : fmt::format("{:.1f} h", s / 3600);
}

std::string Table::text(size_t columns) const {
  std::vector<size_t> widths;
  for (const std::vector<std::string>& row : rows_) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], columns_of(row[i]));
  }
  const size_t named = std::max<size_t>(left_, 1);
  std::string out;
  for (size_t from = named, to = 0; to < widths.size(); from = to) {
    size_t used = 0;
    for (size_t i = 0; i < std::min(named, widths.size()); ++i) used += widths[i] + 2;
    for (to = from; to < widths.size() && (to == from || used + widths[to] <= columns); ++to) used += widths[to] + 2;
    if (from > named) out += "\n";
    for (const std::vector<std::string>& row : rows_) {
      std::string line;
      for (size_t i = 0; i < std::min(to, row.size()); ++i) {
        if (i >= named && i < from) continue;
        const std::string blanks(widths[i] - columns_of(row[i]), ' ');
        line += (i == 0 ? "" : "  ") + (i < left_ ? row[i] + blanks : blanks + row[i]);
      }
      out += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
    }
  }
  return out;
}

}  // namespace zh::tools
