// See precedence.h.
#include "coll/algorithms/precedence.h"

#include <algorithm>

#include "coll/algorithms/choose.h"

namespace zh::coll {

namespace {

/// One part, "bcast:leader-ring". Returns what is wrong with it, or nothing.
std::string read_part(std::string_view part, NamedAlgorithms* out) {
  const size_t colon = part.find(':');
  if (colon == std::string_view::npos) return "is not collective:algorithm";
  const Collective collective = collective_named(part.substr(0, colon));
  if (collective == Collective::kCount) return "there is no such collective";
  const std::string_view word = part.substr(colon + 1);
  NamedAlgorithm& named = (*out)[static_cast<size_t>(collective)];
  if (word == "auto") {
    named.reset();
    return "";
  }
  if (word == kHostAlgorithm) {
    named = nullptr;
    return "";
  }
  const Algorithm* const found = algorithm_called(collective, word);
  if (found != nullptr) {
    named = found;
    return "";
  }
  std::string there = "there are auto, host";
  for (const Algorithm& a : algorithms(collective)) there.append(", ").append(a.name);
  return there;
}

}  // namespace

NamedAlgorithms read_names(std::string_view text, std::vector<std::string>* faults) {
  NamedAlgorithms named{};
  if (text == "auto") return named;
  while (!text.empty()) {
    const std::string_view part = text.substr(0, text.find(','));
    text.remove_prefix(std::min(part.size() + 1, text.size()));
    if (part.empty()) continue;
    if (const std::string fault = read_part(part, &named); !fault.empty()) {
      faults->push_back("ZEROHOP_ALGORITHM: " + std::string(part) + ": " + fault);
    }
  }
  return named;
}

void find_uncut(const NamedAlgorithms& named, uint64_t chunk_bytes, std::vector<std::string>* faults) {
  for (const NamedAlgorithm& name : named) {
    if (chunk_bytes == 0 || !name || *name == nullptr || cuts(**name)) continue;
    faults->push_back("chunk: " + std::string((*name)->name) + " does not cut what it passes on");
  }
}

std::string_view name_of(ChosenBy by) {
  switch (by) {
    case ChosenBy::kVariable:
      return "variable";
    case ChosenBy::kMeasured:
      return "measured";
    case ChosenBy::kModel:
      return "model";
    case ChosenBy::kDefault:
      break;
  }
  return "default";
}

uint64_t unasked_chunk(uint64_t chunk_bytes, uint64_t vector_bytes) {
  constexpr uint64_t kMostPieces = 256;
  return chunk_bytes == 0 ? 0 : std::max(chunk_bytes, (vector_bytes + kMostPieces - 1) / kMostPieces);
}

AlgorithmChoice Precedence::choose(const Problem& problem) const {
  const uint64_t usual = problem.chunk_bytes;
  const auto chunk_for = [&](const Algorithm* how, std::optional<uint64_t> of_table = {}) {
    if (how != nullptr && how->name == kHostLeaders) return uint64_t{0};  // never cuts
    return chunk_set ? usual : unasked_chunk(of_table.value_or(usual), problem.bytes());
  };
  const NamedAlgorithm wanted = named_for(problem.collective);
  if (wanted && (*wanted == nullptr || (*wanted)->fits(problem))) {
    return {*wanted, chunk_for(*wanted), ChosenBy::kVariable};
  }
  for (const ChosenBy by : {ChosenBy::kMeasured, ChosenBy::kModel}) {
    const Selection::Entry* entry = (by == ChosenBy::kMeasured ? measured : modelled).find(problem);
    if (entry == nullptr) continue;
    return {entry->algorithm, chunk_for(entry->algorithm, entry->chunk_bytes), by};
  }
  if (host_serves(problem)) return {nullptr, usual, ChosenBy::kDefault};
  const Algorithm* how = algorithm(problem.collective, default_algorithm(problem));
  return {how, chunk_for(how), ChosenBy::kDefault};
}

HostLeads Precedence::host_leads(const Problem& problem) const {
  const NamedAlgorithm wanted = named_for(problem.collective);
  if (wanted && (*wanted == nullptr || (*wanted)->fits(problem))) {
    return *wanted != nullptr && (*wanted)->name == kHostLeaders ? HostLeads::kAlways : HostLeads::kNever;
  }
  const auto has_word = [&](const Selection& table) {
    return std::any_of(table.entries().begin(), table.entries().end(),
                       [&](const Selection::Entry& e) { return e.collective == problem.collective; });
  };
  if (has_word(measured) || has_word(modelled)) return HostLeads::kSometimes;
  return default_leads(problem);
}

}  // namespace zh::coll
