// A job's ranks and the judgement of their waits, in sentences; numbers as people read them. Called by what prints.
#pragma once

#include <string>
#include <vector>

#include "tools/cli/text.h"
#include "tools/top/waits.h"

namespace zh::tools::top {

/// "1.5 Mi" of 1024s, "1.5 M" of 1000s; whole up to 999.
[[nodiscard]] std::string short_number(double value, double thousand);
/// "0-2,5"; at most `most` of them, then "...".
[[nodiscard]] std::string ranges(const std::vector<int>& ranks, size_t most = 16);
/// As a terminal can take it: what a program has named may hold anything.
[[nodiscard]] std::string printable(std::string_view text);

[[nodiscard]] const char* to_string(RankState state);
/// "1", "1,2" or "1|2", "any", "" of nobody.
[[nodiscard]] std::string peers_text(const p2p::Activity& wait);
/// Its name, or its number.
[[nodiscard]] std::string comm_text(const p2p::Activity& wait);
/// "waiting in MPI_Recv for a message of 1 (tag 7, MPI_COMM_WORLD)": without the rank and the time.
[[nodiscard]] std::string doing(const RankLook& rank);
/// How long it does that; 0 if unknown.
[[nodiscard]] uint64_t doing_for_ns(const RankLook& rank, uint64_t now_ns);
/// What the judgement says; "" if it has nothing to say.
[[nodiscard]] std::string verdict_text(const JobLook& now, const Verdict& verdict);
/// What all ranks do, those that do the same in one line.
[[nodiscard]] std::vector<std::string> rank_lines(const JobLook& now);

}  // namespace zh::tools::top
