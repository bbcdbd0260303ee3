// ZEROHOP_* variables (base/options.h) as the layers below want them.
#pragma once

#include "base/options.h"
#include "engine/rank.h"
#include "node/node.h"

namespace zh::mpi {

/// The variables of this process; complaints are in it.
Options read_options();
void apply(const Options& options, node::Config* out);
void apply(const Options& options, engine::Config* out);

}  // namespace zh::mpi
