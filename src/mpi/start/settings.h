// ZEROHOP_* variables (base/options.h) as the layers below want them.
#pragma once

#include <array>
#include <functional>
#include <string>

#include "base/options.h"
#include "coll/algorithms/precedence.h"
#include "engine/rank.h"
#include "mpi/shim.h"
#include "node/node.h"

namespace zh::mpi {

/// The variables of this process; complaints are in it.
Options read_options();
void apply(const Options& options, node::JoinConfig* out);
void apply(const Options& options, engine::Config* out);

/// By collective: 0 for none in particular, 255 for the host's own, else the place in coll::algorithms() plus one.
using AlgorithmNumbers = std::array<uint8_t, coll::kCollectives>;
/// What ZEROHOP_ALGORITHM names; `complain` gets a line for each part that cannot be obeyed.
AlgorithmNumbers read_algorithms(const Options& options, const std::function<void(const std::string&)>& complain);
coll::NamedAlgorithms algorithms_of(const AlgorithmNumbers& numbers);

}  // namespace zh::mpi
