// See selection.h.
#include "coll/algorithms/selection.h"

#include <algorithm>
#include <charconv>
#include <cinttypes>
#include <cstdio>

namespace zh::coll {
namespace {

constexpr std::string_view kOne = "one";
constexpr std::string_view kSeveral = "several";
constexpr uint64_t kMostChunk = uint64_t{1} << 46;  // as the setting chunk

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

/// The words of a line.
struct Words {
  static constexpr size_t kLeast = 5, kMost = 6;
  std::string_view word[kMost + 1];  // one more, to see that there are too many
  size_t n = 0;
  /// False of an empty line.
  bool read(std::string_view line) {
    while (n <= kMost && !(word[n] = next_word(&line)).empty()) ++n;
    return n > 0;
  }
};

/// Null, or what is wrong with the line.
const char* entry_of(const Words& words, Selection::Entry* out) {
  const auto& w = words.word;
  if (words.n < Words::kLeast || words.n > Words::kMost) {
    return "a line has 5 or 6 words: collective, ranks, one or several, bytes, algorithm, chunk";
  }
  out->collective = collective_named(w[0]);
  if (out->collective == Collective::kCount) return "the first word is no collective";
  if (!to_number(w[1], &out->ranks) || out->ranks < 2) return "the second word is no number of ranks, 2 or more";
  out->several_nodes = w[2] == kSeveral;
  if (!out->several_nodes && w[2] != kOne) return "the third word is neither one nor several";
  if (!to_number(w[3], &out->from_bytes)) return "the fourth word is no number of bytes";
  out->algorithm = algorithm(out->collective, w[4]);
  const bool host = w[4] == kHostAlgorithm;
  if (out->algorithm == nullptr && !host) return "the fifth word is no algorithm of this collective";
  if (words.n < Words::kMost) return nullptr;
  if (host) return "the host's own collective has no chunk";
  uint64_t chunk = 0;
  if (!to_number(w[5], &chunk) || chunk > kMostChunk)
    return "the sixth word is no number of bytes of a chunk, 64T at most";
  out->chunk_bytes = chunk;
  return nullptr;
}

/// Of two entries that hold for the call, whether the first one does more closely.
bool nearer(const Selection::Entry& e, const Selection::Entry& best) {
  return e.ranks != best.ranks ? e.ranks > best.ranks : e.from_bytes > best.from_bytes;
}

constexpr const char* kMeasured = "collectives";
constexpr const char* kModelled = "collectives-model";

std::string file_name(const char* what, std::string_view abi) {
  char key[32];
  std::snprintf(key, sizeof key, "-%016" PRIx64 "-", tune::this_machine().hash());
  return what + (key + std::string(abi)) + ".txt";
}

std::string path_of(const std::string& folder, const char* what, std::string_view abi) {
  return folder.empty() ? "" : folder + "/" + file_name(what, abi);
}

}  // namespace

const Selection::Entry* Selection::find(const Problem& problem) const {
  if (!problem.uniform) return nullptr;  // ranks know different sizes
  const Entry* best = nullptr;
  for (const Entry& e : entries_) {
    const bool meant = e.collective == problem.collective && e.several_nodes == (problem.layout->nodes() > 1) &&
                       e.ranks <= problem.ranks() && e.from_bytes <= problem.bytes();
    if (!meant) continue;
    if (best == nullptr || nearer(e, *best)) best = &e;
  }
  if (best == nullptr || (best->algorithm != nullptr && !best->algorithm->fits(problem))) return nullptr;
  return best;
}

void Selection::replace(const Selection& other) {
  std::erase_if(entries_, [&](const Entry& old) {
    return std::any_of(other.entries_.begin(), other.entries_.end(), [&](const Entry& e) {
      return e.collective == old.collective && e.ranks == old.ranks && e.several_nodes == old.several_nodes;
    });
  });
  entries_.insert(entries_.end(), other.entries_.begin(), other.entries_.end());
}

Status Selection::load(const std::string& path, std::string* why) {
  entries_.clear();
  bool exists = false;
  const std::string text = tune::read_file(path, &exists);
  if (!exists) return {Code::kWouldBlock, "there is no table"};
  const Status s = parse(text, why);
  if (!s.ok() && why != nullptr) *why = path + ": " + *why;
  return s;
}

Status Selection::parse(std::string_view text, std::string* why) {
  entries_.clear();
  for (size_t number = 1; !text.empty(); ++number) {
    std::string_view line = cut(&text, "\n");
    Words words;
    if (!words.read(cut(&line, "#"))) continue;
    Entry entry{};
    if (const char* wrong = entry_of(words, &entry); wrong != nullptr) {
      entries_.clear();
      if (why != nullptr) *why = "line " + std::to_string(number) + ": " + wrong;
      return {Code::kInvalid, "a line of the table of algorithms is not understood"};
    }
    entries_.push_back(entry);
  }
  return kOk;
}

std::string Selection::text(std::string_view heading) const {
  std::string out(heading);
  out.append(
      "# collective, ranks, one or several nodes, bytes from which on, algorithm, bytes of a chunk (0: whole; none: as "
      "the setting chunk)\n");
  for (const Entry& e : entries_) {
    out.append(name_of(e.collective)).append(" ").append(std::to_string(e.ranks)).append(" ");
    out.append(e.several_nodes ? kSeveral : kOne).append(" ").append(std::to_string(e.from_bytes)).append(" ");
    out.append(e.algorithm != nullptr ? e.algorithm->name : kHostAlgorithm);
    if (e.chunk_bytes) out.append(" ").append(std::to_string(*e.chunk_bytes));
    out.append("\n");
  }
  return out;
}

std::string selection_path(const std::string& folder, std::string_view abi) { return path_of(folder, kMeasured, abi); }

std::string model_selection_path(const std::string& folder, std::string_view abi) {
  return path_of(folder, kModelled, abi);
}

std::string selection_path(const tune::KeptFolders& folders, std::string_view abi) {
  return selection_path(folders.with(file_name(kMeasured, abi)), abi);
}

std::string model_selection_path(const tune::KeptFolders& folders, std::string_view abi) {
  return model_selection_path(folders.with(file_name(kModelled, abi)), abi);
}

}  // namespace zh::coll
