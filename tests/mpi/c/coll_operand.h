// Predefined datatypes of reductions and their operands; see coll_operand.c. Used by coll_reduce.c.
#ifndef ZEROHOP_TESTS_MPI_COLL_OPERAND_H
#define ZEROHOP_TESTS_MPI_COLL_OPERAND_H

#include "check.h"

enum OperandKind { kInteger, kTruth, kFloat, kComplex, kPair, kHalf };
struct Operand {
  const char* name;
  MPI_Datatype type;
  enum OperandKind kind;
  int bytes, extent;
  int ops;            // bit 1 << kMax and so on: the standard defines that operation for it
  char value, index;  // of a pair: letters of their C types, as coll_operand.c explains
  int index_at;
};
enum { kMax, kMin, kSum, kProd, kLand, kBand, kLor, kBor, kLxor, kBxor, kMinloc, kMaxloc, kOps };

int operand_count(void);  // fills the table
const struct Operand* operand(int index);
MPI_Op operand_op(int op);
const char* operand_op_name(int op);
/// Operands whose result is the same in every order of combination, or (not `exactly`) floats of all sizes.
void operand_fill(const struct Operand* type, void* out, int count, uint64_t key, int op, bool exactly);
/// What operand_fill() put there for a float; part 1 is the imaginary one.
double operand_value(const struct Operand* type, uint64_t key, int index, int part);
/// Combines the pair at `other` into the one at `pair` by MINLOC or MAXLOC.
void operand_choose(const struct Operand* type, void* pair, const void* other, int op);
double operand_read(const struct Operand* type, const void* base, int index, int part);
/// The first element whose value differs, or -1; padding is not looked at.
int operand_differs(const struct Operand* type, const void* a, const void* b, int count, int op);
#endif
