/* A 2-D halo exchange, as a stencil code does it: an ordinary MPI program that knows nothing of zerohop.
 * Rows (contiguous) travel by MPI_Isend/MPI_Irecv/MPI_Waitall, columns (strided) by MPI_Sendrecv with a vector
 * datatype. After the last step every rank checks its whole field against the closed form; a wrong halo shows as a
 * wrong field. halo [local size = 512] [steps = 200] Prints: halo <ranks> ranks, <size> x <size> each, <µs> us per
 * step, verified */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

struct field {
  int size;     /* interior points in each direction */
  int stride;   /* size + 2: one halo point on each side */
  double* cell; /* stride * stride values, row by row */
};

static double* at(const struct field* f, int row, int column) {
  return &f->cell[(size_t)row * (size_t)f->stride + (size_t)column];
}

static struct field make_field(int size) {
  struct field f = {size, size + 2, NULL};
  f.cell = calloc((size_t)f.stride * (size_t)f.stride, sizeof *f.cell);
  if (f.cell == NULL) {
    fprintf(stderr, "halo: out of memory\n");
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  return f;
}

/* Rows to the neighbours above and below, columns to those left and right; the grid is periodic. */
static void exchange(struct field* f, MPI_Comm grid, const int neighbour[4], MPI_Datatype column) {
  const int n = f->size;
  MPI_Request request[4];
  MPI_Irecv(at(f, 0, 1), n, MPI_DOUBLE, neighbour[0], 1, grid, &request[0]);
  MPI_Irecv(at(f, n + 1, 1), n, MPI_DOUBLE, neighbour[1], 2, grid, &request[1]);
  MPI_Isend(at(f, n, 1), n, MPI_DOUBLE, neighbour[1], 1, grid, &request[2]);
  MPI_Isend(at(f, 1, 1), n, MPI_DOUBLE, neighbour[0], 2, grid, &request[3]);
  MPI_Sendrecv(at(f, 1, n), 1, column, neighbour[3], 3, at(f, 1, 0), 1, column, neighbour[2], 3, grid,
               MPI_STATUS_IGNORE);
  MPI_Sendrecv(at(f, 1, 1), 1, column, neighbour[2], 4, at(f, 1, n + 1), 1, column, neighbour[3], 4, grid,
               MPI_STATUS_IGNORE);
  MPI_Waitall(4, request, MPI_STATUSES_IGNORE);
}

/* Every point takes the sum of its four neighbours, modulo a prime that keeps all values exact in a double. */
static const double kModulus = 65521.0;

static void step(const struct field* from, struct field* to) {
  for (int row = 1; row <= from->size; ++row) {
    for (int column = 1; column <= from->size; ++column) {
      double sum = *at(from, row - 1, column) + *at(from, row + 1, column) + *at(from, row, column - 1) +
                   *at(from, row, column + 1);
      const double whole = sum / kModulus;
      *at(to, row, column) = sum - kModulus * (double)(int)whole;
    }
  }
}

/* The field starts as column parity + 3 * row parity + 1 (global coordinates, even extents): each step maps the value
 * of one parity class to a sum over two other classes, so four numbers describe the whole field at any time. */
static void advance_classes(double value[2][2]) {
  double next[2][2];
  for (int r = 0; r < 2; ++r) {
    for (int c = 0; c < 2; ++c) {
      double sum = 2 * value[1 - r][c] + 2 * value[r][1 - c];
      next[r][c] = sum - kModulus * (double)(int)(sum / kModulus);
    }
  }
  for (int i = 0; i < 4; ++i) value[i / 2][i % 2] = next[i / 2][i % 2];
}

static long count_wrong(const struct field* f, double value[2][2]) {
  long wrong = 0;
  for (int row = 1; row <= f->size; ++row) {
    for (int column = 1; column <= f->size; ++column) wrong += *at(f, row, column) != value[row % 2][column % 2];
  }
  return wrong;
}

/* Once before timing: every point holds its global number, so a halo from the wrong rank or place shows. */
static long count_wrong_halo(struct field* f, MPI_Comm grid, const int neighbour[4], MPI_Datatype column) {
  int extent[2], periodic[2], place[2];
  MPI_Cart_get(grid, 2, extent, periodic, place);
  const int n = f->size, rows = extent[0] * n, columns = extent[1] * n;
  long wrong = 0;
  for (int fill = 1; fill >= 0; --fill) {
    for (int r = 0; r <= n + 1; ++r) {
      for (int c = 0; c <= n + 1; ++c) {
        const int row = (place[0] * n + r - 1 + rows) % rows, col = (place[1] * n + c - 1 + columns) % columns;
        const double number = (double)row * columns + col + 1;
        const int row_inside = r >= 1 && r <= n, column_inside = c >= 1 && c <= n;
        if (fill) *at(f, r, c) = row_inside && column_inside ? number : 0;
        if (!fill && row_inside + column_inside > 0) wrong += *at(f, r, c) != number; /* corners are not exchanged */
      }
    }
    if (fill) exchange(f, grid, neighbour, column);
  }
  return wrong;
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int size = argc > 1 ? atoi(argv[1]) : 512;
  const int steps = argc > 2 ? atoi(argv[2]) : 200;
  size += size % 2; /* even, so that parity goes on over the border */
  int ranks, extent[2] = {0, 0}, periodic[2] = {1, 1}, me, neighbour[4];
  MPI_Comm grid;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  MPI_Dims_create(ranks, 2, extent);
  MPI_Cart_create(MPI_COMM_WORLD, 2, extent, periodic, 1, &grid);
  MPI_Comm_rank(grid, &me);
  MPI_Cart_shift(grid, 0, 1, &neighbour[0], &neighbour[1]);
  MPI_Cart_shift(grid, 1, 1, &neighbour[2], &neighbour[3]);

  struct field now = make_field(size), next = make_field(size);
  MPI_Datatype column;
  MPI_Type_vector(size, 1, now.stride, MPI_DOUBLE, &column);
  MPI_Type_commit(&column);
  const long wrong_halo = count_wrong_halo(&now, grid, neighbour, column);
  double value[2][2];
  for (int i = 0; i < 4; ++i) value[i / 2][i % 2] = 1 + i % 2 + 3 * (i / 2);
  for (int r = 1; r <= size; ++r) {
    for (int c = 1; c <= size; ++c) *at(&now, r, c) = value[r % 2][c % 2];
  }

  double begin = 0, in_exchange = 0;
  const int warm_up = steps / 10 + 1;
  for (int s = -warm_up; s < steps; ++s) {
    if (s == 0) {
      MPI_Barrier(grid);
      begin = MPI_Wtime();
      in_exchange = 0;
    }
    const double before = MPI_Wtime();
    exchange(&now, grid, neighbour, column);
    in_exchange += MPI_Wtime() - before;
    step(&now, &next);
    struct field swap = now;
    now = next;
    next = swap;
    advance_classes(value);
  }
  double seconds[2] = {MPI_Wtime() - begin, in_exchange}, slowest[2];
  long wrong = wrong_halo + count_wrong(&now, value), all_wrong = 0;
  MPI_Allreduce(&wrong, &all_wrong, 1, MPI_LONG, MPI_SUM, grid);
  MPI_Reduce(seconds, slowest, 2, MPI_DOUBLE, MPI_MAX, 0, grid);
  if (me == 0) {
    printf("halo %d ranks, %d x %d each, %.2f us per step, %.2f us of it exchange, %s\n", ranks, size, size,
           slowest[0] / steps * 1e6, slowest[1] / steps * 1e6, all_wrong == 0 ? "verified" : "WRONG");
  }
  MPI_Type_free(&column);
  MPI_Comm_free(&grid);
  free(now.cell);
  free(next.cell);
  MPI_Finalize();
  return all_wrong == 0 ? 0 : 1;
}
