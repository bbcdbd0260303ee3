// See precedence.h.
#include "coll/algorithms/precedence.h"

#include <algorithm>

namespace zh::coll {

bool read_name(Collective collective, std::string_view word, NamedAlgorithm* out) {
  out->reset();
  if (word == "auto" || word.empty()) return true;
  if (word == kHostAlgorithm) {
    *out = nullptr;
    return true;
  }
  const Algorithm* found = algorithm_called(collective, word);
  if (found == nullptr) return false;
  *out = found;
  return true;
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

AlgorithmChoice Precedence::choose(const Problem& problem) const {
  const uint64_t usual = problem.chunk_bytes;
  const auto chunk_for = [&](const Algorithm* how) {
    return how != nullptr && how->name == kHostLeaders ? chunk_of_leaders(usual) : usual;
  };
  const NamedAlgorithm wanted = named_for(problem.collective);
  if (wanted && (*wanted == nullptr || (*wanted)->fits(problem))) {
    return {*wanted, chunk_for(*wanted), ChosenBy::kVariable};
  }
  for (const ChosenBy by : {ChosenBy::kMeasured, ChosenBy::kModel}) {
    const Selection::Entry* entry = (by == ChosenBy::kMeasured ? measured : modelled).find(problem);
    if (entry == nullptr) continue;
    const uint64_t chunk = chunk_for(entry->algorithm);
    return {entry->algorithm, chunk_set ? usual : entry->chunk_bytes.value_or(chunk), by};
  }
  if (host_serves(problem)) return {nullptr, usual, ChosenBy::kDefault};
  const Algorithm* how = algorithm(problem.collective, coll::choose(problem));
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
  if (coll::host_leads(problem)) return HostLeads::kAlways;
  return coll::host_leads_short(problem) ? HostLeads::kSometimes : HostLeads::kNever;
}

}  // namespace zh::coll
