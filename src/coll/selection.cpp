// See selection.h.
#include "coll/selection.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <sstream>

#include "tune/profile.h"

namespace zh::coll {
namespace {

constexpr std::string_view kOne = "one";
constexpr std::string_view kSeveral = "several";

}  // namespace

const Algorithm* Selection::find(const Problem& problem) const {
  if (!problem.uniform || entries_.empty()) return nullptr;  // else ranks know different sizes
  const Entry* best = nullptr;
  for (const Entry& e : entries_) {
    const bool meant = e.collective == problem.collective && e.several_nodes == (problem.layout->nodes() > 1) &&
                       e.ranks <= problem.ranks() && e.from_bytes <= problem.bytes();
    if (!meant) continue;
    const bool nearer =
        best == nullptr || e.ranks > best->ranks || (e.ranks == best->ranks && e.from_bytes > best->from_bytes);
    if (nearer) best = &e;
  }
  return best != nullptr && best->algorithm->fits(problem) ? best->algorithm : nullptr;
}

void Selection::replace(const Selection& other) {
  std::erase_if(entries_, [&](const Entry& old) {
    return std::any_of(other.entries_.begin(), other.entries_.end(), [&](const Entry& e) {
      return e.collective == old.collective && e.ranks == old.ranks && e.several_nodes == old.several_nodes;
    });
  });
  entries_.insert(entries_.end(), other.entries_.begin(), other.entries_.end());
}

Status Selection::parse(std::string_view text) {
  entries_.clear();
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line.substr(0, line.find('#')));
    std::string collective;
    std::string nodes;
    std::string name;
    std::string rest;
    Entry entry{};
    if (!(words >> collective)) continue;
    words >> entry.ranks >> nodes >> entry.from_bytes >> name;
    entry.collective = collective_named(collective);
    entry.several_nodes = nodes == kSeveral;
    if (words && entry.collective != Collective::kCount) entry.algorithm = algorithm(entry.collective, name);
    const bool good =
        entry.algorithm != nullptr && entry.ranks > 1 && (entry.several_nodes || nodes == kOne) && !(words >> rest);
    if (!good) {
      entries_.clear();
      return {Code::kInvalid, "a line of the table of algorithms is not understood"};
    }
    entries_.push_back(entry);
  }
  return kOk;
}

std::string Selection::text() const {
  std::ostringstream out;
  out << "# Algorithms of collectives, measured by `zerohop bench algorithms --save`.\n"
         "# collective, ranks, one or several nodes, bytes from which on, algorithm\n";
  for (const Entry& e : entries_) {
    out << name_of(e.collective) << ' ' << e.ranks << ' ' << (e.several_nodes ? kSeveral : kOne) << ' ' << e.from_bytes
        << ' ' << e.algorithm->name << '\n';
  }
  return out.str();
}

std::string selection_path(const std::string& folder) {
  if (folder.empty()) return "";
  char name[40];
  std::snprintf(name, sizeof name, "/collectives-%016" PRIx64 ".txt", tune::this_machine().hash());
  return folder + name;
}

}  // namespace zh::coll
