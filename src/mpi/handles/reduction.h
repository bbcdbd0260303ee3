// Operations of reductions: which kernel stands behind a predefined operation on a predefined datatype, and how the
// program's own operations are called. What is not known here is the host's.
#pragma once

#include <array>

#include "coll/types.h"
#include "mpi/handles/datatype.h"
#include "simd/reduce.h"

namespace zh::mpi {

/// An operation that zerohop can apply: a predefined one, or one that the program made.
struct OpInfo {
  simd::Op op = simd::Op::kCount;  ///< kCount: the program's
  bool commutative = true;
  // The program's:
  Atomic<uint32_t> users{1};  ///< the table, and collectives that go on after their calls have returned
  bool freed = false;         ///< by the program meanwhile: the host frees `handle` with the last user
  MPI_Op handle{};
};

extern HandleMap<OpInfo> ops;

/// Enters the predefined operations and datatypes. Called once, when the host is known.
void load_predefined(void* library);
/// True for handles of predefined datatypes that kernels exist for; safe before the host has judged the handle.
[[nodiscard]] bool has_kernels(MPI_Datatype type);
/// Sets the kernels of `info`, whose handle, size and extent are known.
void find_kernels(TypeInfo* info);

/// After the host made `op`.
void remember_op(MPI_Op op, bool commutative);
/// MPI_Op_free: the host may give the handle to another operation at once. It is kept while collectives need it.
int free_op(MPI_Op* op);
inline void hold(OpInfo* op) { op->users.fetch_add_relaxed(1); }
void drop(OpInfo* op);
/// MPI_Op_create_c where the host has none: its functions take int counts.
using LargeUserFunction = void(void*, void*, MPI_Count*, MPI_Datatype*);
int create_large_op(LargeUserFunction* function, int commute, MPI_Op* op);

/// What run_user_op() needs; lives as long as the call.
struct UserOp {
  MPI_Op op;
  MPI_Datatype type;
  uint64_t element_bytes;
};
/// The program's function on n elements. The host calls it: it alone knows whether it was written in C or in Fortran,
/// and which kind of count it takes.
void run_user_op(void* user_op, void* in, void* inout, uint64_t n);

/// Fills `how` for (op, type); false: the host must do it, and raise what is wrong. Follows from op and type alone.
inline bool find_reduction(const OpInfo& info, MPI_Op op, const TypeInfo& type, UserOp* user, coll::Reduction* how) {
  if (info.op != simd::Op::kCount) [[likely]] {
    how->kernel = type.kernels[static_cast<size_t>(info.op)];
    how->element_bytes = type.element_bytes;
    return how->kernel != nullptr;
  }
  // Elements that have gaps would need their layout there.
  if (type.element_bytes == 0) return false;
  *user = {op, type.handle, type.element_bytes};
  how->user = run_user_op;
  how->context = user;
  how->element_bytes = type.element_bytes;
  how->commutative = info.commutative;
  return true;
}

/// A judged reduction: operands, result, operation. Stays where it is: `how` refers to `user`.
struct Reducing {
  const void* in = nullptr;
  void* out = nullptr;
  coll::Reduction how;
  UserOp user;
  MPI_Op handle{};
  OpInfo* op = nullptr;
  TypeInfo* type = nullptr;  ///< of the elements
};

}  // namespace zh::mpi
