// CG of the NAS benchmarks: the smallest eigenvalue of a sparse matrix by inverse iteration, each step 25 steps of
// conjugate gradients. The matrix lies on a grid of ranks, as square as can be; products are summed along rows of the
// grid by pairs and then change places with the transposed rank. All messages are of two ranks. Verified by zeta.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "apps.h"

enum { kSteps = 25, kMostNonzero = 13 + 1 };

typedef struct {
  char name;
  int order, nonzero, turns;
  double shift, zeta;
} Class;

static const Class kClasses[] = {{'S', 1400, 7, 15, 10, 8.5971775078648},
                                 {'W', 7000, 8, 15, 12, 10.362595087124},
                                 {'A', 14000, 11, 15, 20, 17.130235054029},
                                 {'B', 75000, 13, 75, 60, 22.712745482631}};
static const double kCondition = 0.1;

static const Class* c = NULL;
static int grid_rows = 1, grid_cols = 1, my_row = 0, my_col = 0;
static int rows = 0, cols = 0;  // of the own block of the matrix
static int *row_start, *column;
static double* element;
static double *p, *q, *r, *x, *z;   // by the columns of the block
static double *product, *received;  // by its rows

// --- the matrix: a weighted sum of outer products of sparse random vectors, and a shift

typedef struct {
  int count;
  int at[kMostNonzero];
  double value[kMostNonzero];
} Sparse;

static void random_vector(uint64_t* state, int own, Sparse* v) {
  int range = 1;
  while (range < c->order) range *= 2;
  v->count = 0;
  while (v->count < c->nonzero) {
    const double value = random_next(state);
    const int at = (int)(range * random_next(state));
    int known = at >= c->order;
    for (int i = 0; i < v->count && !known; i++) known = v->at[i] == at;
    if (known) continue;
    v->at[v->count] = at;
    v->value[v->count++] = value;
  }
  int i = 0;
  while (i < v->count && v->at[i] != own) i++;
  v->at[i] = own;
  v->value[i] = 0.5;
  if (i == v->count) v->count++;
}

static int compare(const void* a, const void* b) { return *(const int*)a - *(const int*)b; }

typedef struct {
  int *start, *at;
  double* value;
} Terms;  // of the own block, row by row, in the order in which they are added

static Terms terms_of(const Sparse* vectors) {
  const int row0 = my_row * rows, col0 = my_col * cols;
  const double ratio = pow(kCondition, 1.0 / c->order);
  Terms t = {new_array((size_t)rows + 2, sizeof(int)), NULL, NULL};
  for (int fill = 0; fill < 2; fill++) {
    double size = 1;
    for (int i = 0; i < c->order; i++, size *= ratio) {
      const Sparse* v = &vectors[i];
      for (int a = 0; a < v->count; a++) {
        const int row = v->at[a] - row0;
        if (row < 0 || row >= rows) continue;
        for (int b = 0; b < v->count; b++) {
          const int col = v->at[b] - col0;
          if (col < 0 || col >= cols) continue;
          int* end = &t.start[row + (fill ? 1 : 2)];
          if (fill) {
            const int diagonal = v->at[a] == i && v->at[b] == i;
            t.at[*end] = col;
            t.value[*end] = v->value[b] * (size * v->value[a]) + (diagonal ? kCondition - c->shift : 0);
          }
          ++*end;
        }
      }
    }
    if (fill) break;
    for (int row = 0; row < rows; row++) t.start[row + 2] += t.start[row + 1];
    t.at = new_array((size_t)t.start[rows + 1], sizeof(int));
    t.value = new_array((size_t)t.start[rows + 1], sizeof(double));
  }
  return t;
}

// Terms of one place become one element.
static void make_matrix(void) {
  Sparse* vectors = new_array((size_t)c->order, sizeof *vectors);
  uint64_t state = random_at(1);  // the specification throws one number away
  for (int i = 0; i < c->order; i++) random_vector(&state, i, &vectors[i]);
  Terms t = terms_of(vectors);
  free(vectors);
  double* sum = new_array((size_t)cols, sizeof *sum);
  int* last = new_array((size_t)cols, sizeof *last);  // the row, plus 1, that used the column last
  row_start = new_array((size_t)rows + 1, sizeof *row_start);
  column = new_array((size_t)t.start[rows], sizeof *column);
  element = new_array((size_t)t.start[rows], sizeof *element);
  int count = 0;
  for (int row = 0; row < rows; row++) {
    for (int i = t.start[row]; i < t.start[row + 1]; i++) {
      const int col = t.at[i];
      if (last[col] != row + 1) {
        last[col] = row + 1;
        sum[col] = 0;
        column[count++] = col;
      }
      sum[col] += t.value[i];
    }
    qsort(column + row_start[row], (size_t)(count - row_start[row]), sizeof *column, compare);
    for (int i = row_start[row]; i < count; i++) element[i] = sum[column[i]];
    row_start[row + 1] = count;
  }
  free(t.start), free(t.at), free(t.value), free(sum), free(last);
}

// --- the solver

static double dot(const double* a, const double* b) {
  double sum = 0, other = 0;
  for (int i = 0; i < cols; i++) sum += a[i] * b[i];
  for (int bit = 1; bit < grid_cols; bit *= 2) {
    exchange(&sum, &other, 1, my_row * grid_cols + (my_col ^ bit));
    sum += other;
  }
  return sum;
}

// out := A in. With twice as many columns of ranks as rows each rank needs but half of its row's sums.
static void multiply(const double* in, double* out) {
  for (int row = 0; row < rows; row++) {
    double sum = 0;
    for (int i = row_start[row]; i < row_start[row + 1]; i++) sum += element[i] * in[column[i]];
    product[row] = sum;
  }
  const int halves = grid_cols != grid_rows;
  double* mine = product + (halves ? (my_col & 1) * cols : 0);
  for (int bit = 1; bit < grid_cols; bit *= 2) {
    const double* sent = halves && bit == 1 ? product + ((my_col & 1) ^ 1) * cols : mine;
    exchange(sent, received, cols, my_row * grid_cols + (my_col ^ bit));
    for (int i = 0; i < cols; i++) mine[i] += received[i];
  }
  const int transposed = halves ? my_col / 2 * grid_cols + 2 * my_row + (my_col & 1) : my_col * grid_cols + my_row;
  if (transposed == g_rank) {
    memcpy(out, mine, (size_t)cols * sizeof *out);
  } else {
    exchange(mine, out, cols, transposed);
  }
}

// z := about A^-1 x; returns the norm of x - A z.
static double solve(void) {
  for (int i = 0; i < cols; i++) z[i] = 0, r[i] = p[i] = x[i];
  double rho = dot(r, r);
  for (int step = 0; step < kSteps; step++) {
    multiply(p, q);
    const double alpha = rho / dot(p, q), before = rho;
    for (int i = 0; i < cols; i++) z[i] += alpha * p[i], r[i] -= alpha * q[i];
    rho = dot(r, r);
    const double beta = rho / before;
    for (int i = 0; i < cols; i++) p[i] = r[i] + beta * p[i];
  }
  multiply(z, r);
  for (int i = 0; i < cols; i++) r[i] = x[i] - r[i];
  return sqrt(dot(r, r));
}

static double turn(double* residual) {
  *residual = solve();
  const double along = dot(x, z), length = 1 / sqrt(dot(z, z));
  for (int i = 0; i < cols; i++) x[i] = length * z[i];
  return c->shift + 1 / along;
}

static Outcome run(char class_name) {
  for (size_t i = 0; i < sizeof kClasses / sizeof *kClasses; i++) {
    if (kClasses[i].name == class_name) c = &kClasses[i];
  }
  const int log = log2_of(g_ranks);
  grid_rows = 1 << log / 2;
  grid_cols = g_ranks / grid_rows;
  if (c->order % grid_cols != 0) refuse("cg: too many ranks for this class: 64 at most");
  my_row = g_rank / grid_cols;
  my_col = g_rank % grid_cols;
  rows = c->order / grid_rows;
  cols = c->order / grid_cols;
  make_matrix();
  double** const by_column[] = {&p, &q, &r, &x, &z, &received};
  for (size_t i = 0; i < sizeof by_column / sizeof *by_column; i++)
    *by_column[i] = new_array((size_t)cols, sizeof(double));
  product = new_array((size_t)rows, sizeof *product);
  double zeta = 0, residual = 0;
  for (int i = 0; i < cols; i++) x[i] = 1;
  turn(&residual);
  for (int i = 0; i < cols; i++) x[i] = 1;
  timed_begin();
  for (int i = 0; i < c->turns; i++) zeta = turn(&residual);
  timed_end();
  return (Outcome){!is_close(zeta, c->zeta, 1e-10), 1, {zeta, residual}};
}

const App g_cg = {"cg", "NAS CG: conjugate gradients (messages of two ranks)", run};
