// Parallel HDF5: all ranks write a shared file together, row blocks of one data set, and read it back by column blocks.
// hdf5 <rows> <file>: leaves one JSON object there, and the data in <file>.h5, which it removes.
#include <hdf5.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { kTurns = 10 };

static int rank, ranks;
static hsize_t n;  // rows and columns; a multiple of the ranks

static int one_turn(const char* path, double* data) {
  const hsize_t whole[2] = {n, n}, by_row[2] = {n / (hsize_t)ranks, n}, by_column[2] = {n, n / (hsize_t)ranks};
  const hsize_t row_at[2] = {by_row[0] * (hsize_t)rank, 0}, column_at[2] = {0, by_column[1] * (hsize_t)rank};
  const hid_t access = H5Pcreate(H5P_FILE_ACCESS), together = H5Pcreate(H5P_DATASET_XFER);
  H5Pset_fapl_mpio(access, MPI_COMM_WORLD, MPI_INFO_NULL);
  H5Pset_dxpl_mpio(together, H5FD_MPIO_COLLECTIVE);
  const hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, access), space = H5Screate_simple(2, whole, NULL);
  const hid_t set = H5Dcreate2(file, "field", H5T_NATIVE_DOUBLE, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  const hid_t rows = H5Screate_simple(2, by_row, NULL), columns = H5Screate_simple(2, by_column, NULL);
  for (hsize_t i = 0; i < by_row[0] * n; i++) data[i] = (double)(row_at[0] * n + i);
  H5Sselect_hyperslab(space, H5S_SELECT_SET, row_at, NULL, by_row, NULL);
  int wrong = H5Dwrite(set, H5T_NATIVE_DOUBLE, rows, space, together, data) < 0;
  H5Sselect_hyperslab(space, H5S_SELECT_SET, column_at, NULL, by_column, NULL);
  wrong += H5Dread(set, H5T_NATIVE_DOUBLE, columns, space, together, data) < 0;
  for (hsize_t i = 0; i < n; i++) {
    for (hsize_t j = 0; j < by_column[1]; j++)
      wrong += data[i * by_column[1] + j] != (double)(i * n + column_at[1] + j);
  }
  H5Sclose(rows), H5Sclose(columns), H5Sclose(space), H5Dclose(set), H5Fclose(file), H5Pclose(access),
      H5Pclose(together);
  return wrong;
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  n = argc == 3 ? strtoull(argv[1], NULL, 10) / (hsize_t)ranks * (hsize_t)ranks : 0;
  char path[4096];
  snprintf(path, sizeof path, "%s.h5", argc == 3 ? argv[2] : "");
  double* data = malloc((size_t)(n * n / (hsize_t)ranks) * sizeof *data);
  int wrong = data == NULL ? 1 : one_turn(path, data), all_wrong = 0;
  MPI_Barrier(MPI_COMM_WORLD);
  const double begin = MPI_Wtime();
  for (int turn = 0; turn < kTurns && data != NULL; turn++) wrong += one_turn(path, data);
  double seconds = MPI_Wtime() - begin, slowest = 0;
  MPI_Reduce(&seconds, &slowest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
  MPI_Allreduce(&wrong, &all_wrong, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  FILE* out = rank == 0 ? fopen(argv[2], "w") : NULL;
  if (out != NULL) {
    fprintf(out, "{\"seconds\": %.9g, \"verified\": %s}\n", slowest, all_wrong == 0 ? "true" : "false");
    fclose(out);
    remove(path);
  }
  free(data);
  MPI_Finalize();
  return all_wrong != 0;
}
