// PETSc: conjugate gradients with Jacobi's preconditioner on the 5-point Laplacian of a square whose solution is known.
// petsc <points> <file>: leaves one JSON object there.
#include <petscksp.h>

static PetscErrorCode assemble(Mat a, PetscInt n) {
  PetscInt first, last;
  PetscCall(MatGetOwnershipRange(a, &first, &last));
  for (PetscInt row = first; row < last; row++) {
    const PetscInt i = row / n, j = row % n;
    const PetscInt beside[4] = {i > 0 ? row - n : -1, i < n - 1 ? row + n : -1, j > 0 ? row - 1 : -1,
                                j < n - 1 ? row + 1 : -1};
    const PetscScalar centre = 4, others[4] = {-1, -1, -1, -1};
    PetscCall(MatSetValues(a, 1, &row, 4, beside, others, INSERT_VALUES));  // negative columns are left out
    PetscCall(MatSetValues(a, 1, &row, 1, &row, &centre, INSERT_VALUES));
  }
  PetscCall(MatAssemblyBegin(a, MAT_FINAL_ASSEMBLY));
  return MatAssemblyEnd(a, MAT_FINAL_ASSEMBLY);
}

int main(int argc, char** argv) {
  const PetscInt n = argc == 3 ? atoi(argv[1]) : 0;
  const char* path = argc == 3 ? argv[2] : NULL;
  int rank;
  int none = 1;  // its own options are not on the command line
  Mat a;
  Vec x, b, right;
  KSP solver;
  PC pc;
  PetscReal error, size;
  PetscCall(PetscInitialize(&none, &argv, NULL, NULL));
  MPI_Comm_rank(PETSC_COMM_WORLD, &rank);
  PetscCall(MatCreateAIJ(PETSC_COMM_WORLD, PETSC_DECIDE, PETSC_DECIDE, n * n, n * n, 5, NULL, 5, NULL, &a));
  PetscCall(assemble(a, n));
  PetscCall(MatCreateVecs(a, &x, &b));
  PetscCall(VecDuplicate(x, &right));
  PetscCall(VecSet(right, 1));
  PetscCall(MatMult(a, right, b));
  PetscCall(KSPCreate(PETSC_COMM_WORLD, &solver));
  PetscCall(KSPSetOperators(solver, a, a));
  PetscCall(KSPSetType(solver, KSPCG));
  PetscCall(KSPGetPC(solver, &pc));
  PetscCall(PCSetType(pc, PCJACOBI));
  PetscCall(KSPSetTolerances(solver, 1e-10, PETSC_DEFAULT, PETSC_DEFAULT, 100000));
  PetscCall(KSPSolve(solver, b, x));  // untimed: sets up
  double seconds = 0, slowest = 0;
  MPI_Barrier(PETSC_COMM_WORLD);
  const double begin = MPI_Wtime();
  PetscCall(VecSet(x, 0));
  PetscCall(KSPSolve(solver, b, x));
  seconds = MPI_Wtime() - begin;
  MPI_Reduce(&seconds, &slowest, 1, MPI_DOUBLE, MPI_MAX, 0, PETSC_COMM_WORLD);
  PetscCall(VecNorm(right, NORM_2, &size));
  PetscCall(VecAXPY(x, -1, right));
  PetscCall(VecNorm(x, NORM_2, &error));
  const int good = error / size < 1e-6;
  FILE* out = rank == 0 ? fopen(path, "w") : NULL;
  if (out != NULL) {
    fprintf(out, "{\"seconds\": %.9g, \"verified\": %s}\n", slowest, good ? "true" : "false");
    fclose(out);
  }
  PetscCall(PetscFinalize());
  return good ? 0 : 1;
}
