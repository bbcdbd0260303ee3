#include "p2p/deaths.h"

namespace zh::p2p {

const Deaths::Context* Deaths::find(uint64_t context) const {
  const auto found = contexts_.find(context);
  return found == contexts_.end() ? nullptr : &found->second;
}

Deaths::Count Deaths::count(const Context* context) const {
  Count count;
  const auto add = [&](uint32_t rank) {
    if (rank == self_) return;
    ++count.others;
    if (ended_[rank]) ++count.ended;
  };
  if (context == nullptr || context->members.empty()) {
    for (uint32_t rank = 0; rank < ended_.size(); ++rank) add(rank);
    return count;
  }
  for (const int32_t rank : context->members) {
    if (rank >= 0) {
      add(static_cast<uint32_t>(rank));
    } else {
      ++count.others;
    }
  }
  return count;
}

bool Deaths::is_concerned(uint64_t context) const {
  const Context* named = find(context);
  const Count found = count(named);
  return found.ended != 0 && (found.ended == found.others || found.ended > (named != nullptr ? named->told : 0));
}

void Deaths::told(uint64_t context) {
  const uint32_t ended = count(find(context)).ended;
  contexts_[context].told = ended;
}

}  // namespace zh::p2p
