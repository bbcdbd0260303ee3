// The names in functions.table, and the numbers by which the engine tells of their calls (p2p/activity.h). Read by
// resolve.cpp, the shim and the tools; refuses to know any MPI type.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace zh::mpi {

/// Without "MPI_", in the order of the table.
inline constexpr const char* kFunctionNames[] = {
#define ZH_F(name) #name,
#include "mpi/entry/functions.table"
};
constexpr size_t kFunctions = sizeof(kFunctionNames) / sizeof(kFunctionNames[0]);

/// 1 + its place; 0: it is not in the table.
constexpr uint16_t function_number(std::string_view name) {
  for (size_t i = 0; i < kFunctions; ++i) {
    if (kFunctionNames[i] == name) return static_cast<uint16_t>(i + 1);
  }
  return 0;
}

}  // namespace zh::mpi
