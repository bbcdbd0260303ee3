// Problems to try schedules on. Used by the schedule_*_test.cpp files.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "coll/algorithms/algorithms.h"
#include "coll/schedule/problem.h"

namespace zh::test {

/// One node; two, three and four, in blocks and cyclic; unequal ones; unequal ones in disorder. No two are alike.
[[nodiscard]] std::vector<std::shared_ptr<const coll::Layout>> layouts(uint32_t ranks);
[[nodiscard]] std::shared_ptr<const coll::Layout> blocks_of(uint32_t ranks, uint32_t nodes);

/// The problem of every rank, with pieces of different sizes and gaps between them where `uniform` is false and the
/// collective has lists.
[[nodiscard]] std::vector<coll::Problem> make_problems(const coll::Problem& problem, bool uniform);
/// The same with MPI_IN_PLACE wherever MPI allows it.
[[nodiscard]] std::vector<coll::Problem> in_place(std::vector<coll::Problem> problems);

/// The same where every node has a team, or (`some`) every second one.
[[nodiscard]] std::vector<coll::Problem> with_teams(std::vector<coll::Problem> problems, bool some);

[[nodiscard]] std::vector<coll::Collective> all_collectives();
[[nodiscard]] bool has_lists(coll::Collective collective);
/// A small one in chunks, on unequal nodes, whose operands do not commute: something to spoil in most algorithms.
[[nodiscard]] coll::Problem planted_problem(coll::Collective collective);
/// What failed, for messages of tests.
[[nodiscard]] std::string text(const coll::Problem& problem, std::string_view algorithm);

}  // namespace zh::test
