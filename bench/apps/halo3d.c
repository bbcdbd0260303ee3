// A halo exchange of a 3-D stencil code: six faces of a block, each a subarray datatype, by MPI_Isend, MPI_Irecv and
// MPI_Waitall. The sums are whole numbers modulo a prime, so the field is known exactly after any number of steps.
// examples/halo.c is the same in two directions.
#include <math.h>
#include <string.h>

#include "apps.h"

static const double kModulus = 65521;

static int n = 0, line = 0;  // points of a block in each direction, without and with the halo
static double *now, *next;
static MPI_Comm cube;
static MPI_Datatype send_face[6], recv_face[6];  // 2 direction + side
static int neighbour[6];

static double* at(double* f, int k, int j, int i) {
  return f + ((size_t)k * (size_t)line + (size_t)j) * (size_t)line + i;
}

static MPI_Datatype face_at(int direction, int index) {
  int whole[3] = {line, line, line}, size[3] = {n, n, n}, start[3] = {1, 1, 1};
  size[direction] = 1;
  start[direction] = index;
  MPI_Datatype face;
  MPI_Type_create_subarray(3, whole, size, start, MPI_ORDER_C, MPI_DOUBLE, &face);
  MPI_Type_commit(&face);
  return face;
}

static void exchange_faces(double* f) {
  MPI_Request request[12];
  for (int s = 0; s < 6; s++) IN_MPI(MPI_Irecv(f, 1, recv_face[s], neighbour[s], s ^ 1, cube, &request[s]));
  for (int s = 0; s < 6; s++) IN_MPI(MPI_Isend(f, 1, send_face[s], neighbour[s], s, cube, &request[6 + s]));
  IN_MPI(MPI_Waitall(12, request, MPI_STATUSES_IGNORE));
}

static void step(void) {
  for (int k = 1; k <= n; k++) {
    for (int j = 1; j <= n; j++) {
      double *to = at(next, k, j, 0), *from = at(now, k, j, 0);
      const ptrdiff_t y = line, z = y * y;
      for (int i = 1; i <= n; i++) {
        const double sum = from[i - 1] + from[i + 1] + from[i - y] + from[i + y] + from[i - z] + from[i + z];
        to[i] = sum - kModulus * (double)(int)(sum / kModulus);
      }
    }
  }
  double* other = now;
  now = next;
  next = other;
}

// Every point holds its place in the whole cube, so that a face of another rank or side shows.
static int wrong_faces(const int* place, const int* extent) {
  int wrong = 0;
  for (int fill = 1; fill >= 0; fill--) {
    for (int k = 0; k < line; k++) {
      for (int j = 0; j < line; j++) {
        for (int i = 0; i < line; i++) {
          const int local[3] = {k, j, i};
          double number = 0;
          int outside = 0;
          for (int d = 0; d < 3; d++) {
            const int all = extent[d] * n;
            number = number * all + (place[d] * n + local[d] - 1 + all) % all;
            outside += local[d] == 0 || local[d] == n + 1;
          }
          if (fill) *at(now, k, j, i) = outside ? -1 : number;
          if (!fill && outside <= 1) wrong += *at(now, k, j, i) != number;
        }
      }
    }
    if (fill) exchange_faces(now);
  }
  return wrong;
}

// The field begins as 1, 2 ... 8 by the parities of the place, and stays a matter of these.
static void advance(double by_parity[8]) {
  double sums[8];
  for (int p = 0; p < 8; p++) {
    sums[p] = 2 * (by_parity[p ^ 1] + by_parity[p ^ 2] + by_parity[p ^ 4]);
    sums[p] -= kModulus * floor(sums[p] / kModulus);
  }
  memcpy(by_parity, sums, sizeof sums);
}

static int fill_or_compare(const double by_parity[8], int fill) {
  int wrong = 0;
  for (int k = 1; k <= n; k++) {
    for (int j = 1; j <= n; j++) {
      for (int i = 1; i <= n; i++) {
        const double right = by_parity[(k & 1) * 4 + (j & 1) * 2 + (i & 1)];
        if (fill) *at(now, k, j, i) = right;
        wrong += *at(now, k, j, i) != right;
      }
    }
  }
  return wrong;
}

static Outcome run(char class_name) {
  static const struct {
    char name;
    int points, steps;
  } classes[] = {{'S', 16, 200}, {'W', 48, 200}, {'A', 96, 100}, {'B', 160, 100}};
  int steps = 0, extent[3] = {0, 0, 0}, periodic[3] = {1, 1, 1}, place[3];
  for (size_t i = 0; i < sizeof classes / sizeof *classes; i++) {
    if (classes[i].name == class_name) n = classes[i].points, steps = classes[i].steps;
  }
  line = n + 2;
  now = new_array((size_t)line * (size_t)line * (size_t)line, sizeof *now);
  next = new_array((size_t)line * (size_t)line * (size_t)line, sizeof *next);
  MPI_Dims_create(g_ranks, 3, extent);
  MPI_Cart_create(MPI_COMM_WORLD, 3, extent, periodic, 0, &cube);
  MPI_Cart_get(cube, 3, extent, periodic, place);
  for (int d = 0; d < 3; d++) {
    MPI_Cart_shift(cube, d, 1, &neighbour[2 * d], &neighbour[2 * d + 1]);
    for (int side = 0; side < 2; side++) {
      send_face[2 * d + side] = face_at(d, side ? n : 1);
      recv_face[2 * d + side] = face_at(d, side ? n + 1 : 0);
    }
  }
  Outcome out = {wrong_faces(place, extent), 1, {0, 0}};
  double by_parity[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  fill_or_compare(by_parity, 1);
  exchange_faces(now);
  timed_begin();
  for (int s = 0; s < steps; s++) {
    exchange_faces(now);
    step();
    advance(by_parity);
  }
  timed_end();
  out.errors += fill_or_compare(by_parity, 0);
  out.value[0] = *at(now, 1, 1, 1);
  return out;
}

const App g_halo3d = {"halo3d", "3-D halo exchange (subarray datatypes)", run};
