// See selection.h.
#include "coll/algorithms/selection.h"

#include <algorithm>
#include <charconv>
#include <cinttypes>
#include <cstdio>

#include "tune/profile.h"

namespace zh::coll {
namespace {

constexpr std::string_view kOne = "one";
constexpr std::string_view kSeveral = "several";

/// What is before the first of `ends`, which leaves the text.
std::string_view cut(std::string_view* text, const char* ends) {
  const size_t n = std::min(text->find_first_of(ends), text->size());
  const std::string_view before = text->substr(0, n);
  text->remove_prefix(std::min(n + 1, text->size()));
  return before;
}

/// Empty at the end.
std::string_view next_word(std::string_view* line) {
  line->remove_prefix(std::min(line->find_first_not_of(" \t\r"), line->size()));
  return cut(line, " \t\r");
}

template <typename Number>
bool to_number(std::string_view word, Number* out) {
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), *out);
  return error == std::errc() && end == word.data() + word.size();
}

}  // namespace

std::optional<const Algorithm*> Selection::find(const Problem& problem) const {
  if (!problem.uniform || entries_.empty()) return std::nullopt;  // else ranks know different sizes
  const Entry* best = nullptr;
  for (const Entry& e : entries_) {
    const bool meant = e.collective == problem.collective && e.several_nodes == (problem.layout->nodes() > 1) &&
                       e.ranks <= problem.ranks() && e.from_bytes <= problem.bytes();
    if (!meant) continue;
    const bool nearer =
        best == nullptr || e.ranks > best->ranks || (e.ranks == best->ranks && e.from_bytes > best->from_bytes);
    if (nearer) best = &e;
  }
  if (best == nullptr || (best->algorithm != nullptr && !best->algorithm->fits(problem))) return std::nullopt;
  return best->algorithm;
}

void Selection::replace(const Selection& other) {
  std::erase_if(entries_, [&](const Entry& old) {
    return std::any_of(other.entries_.begin(), other.entries_.end(), [&](const Entry& e) {
      return e.collective == old.collective && e.ranks == old.ranks && e.several_nodes == old.several_nodes;
    });
  });
  entries_.insert(entries_.end(), other.entries_.begin(), other.entries_.end());
}

Status Selection::load(const std::string& path) {
  entries_.clear();
  bool exists = false;
  const std::string text = tune::read_file(path, &exists);
  return exists ? parse(text) : Status{Code::kWouldBlock, "nothing was measured"};
}

Status Selection::parse(std::string_view text) {
  entries_.clear();
  while (!text.empty()) {
    std::string_view line = cut(&text, "\n");
    line = cut(&line, "#");
    std::string_view words[6];
    size_t n = 0;
    while (n < 6 && !(words[n] = next_word(&line)).empty()) ++n;
    if (n == 0) continue;
    Entry entry{};
    entry.collective = collective_named(words[0]);
    entry.several_nodes = words[2] == kSeveral;
    if (entry.collective != Collective::kCount) entry.algorithm = algorithm(entry.collective, words[4]);
    const bool named =
        entry.algorithm != nullptr || (entry.collective != Collective::kCount && words[4] == kHostAlgorithm);
    const bool good = n == 5 && named && to_number(words[1], &entry.ranks) && entry.ranks > 1 &&
                      (entry.several_nodes || words[2] == kOne) && to_number(words[3], &entry.from_bytes);
    if (!good) {
      entries_.clear();
      return {Code::kInvalid, "a line of the table of algorithms is not understood"};
    }
    entries_.push_back(entry);
  }
  return kOk;
}

std::string Selection::text() const {
  std::string out =
      "# Algorithms of collectives, measured by `zerohop bench algorithms --save`.\n"
      "# collective, ranks, one or several nodes, bytes from which on, algorithm\n";
  for (const Entry& e : entries_) {
    out.append(name_of(e.collective)).append(" ").append(std::to_string(e.ranks)).append(" ");
    out.append(e.several_nodes ? kSeveral : kOne).append(" ").append(std::to_string(e.from_bytes)).append(" ");
    out.append(e.algorithm != nullptr ? e.algorithm->name : kHostAlgorithm).append("\n");
  }
  return out;
}

std::string selection_path(const std::string& folder, std::string_view abi) {
  if (folder.empty()) return "";
  char name[40];
  std::snprintf(name, sizeof name, "/collectives-%016" PRIx64 "-", tune::this_machine().hash());
  return (folder + name).append(abi).append(".txt");
}

}  // namespace zh::coll
