// MG of the NAS benchmarks: V-cycles of a multigrid for Poisson's equation on a periodic cube. Every operator is
// followed by an exchange of the planes at the border, in all sizes of a level. Verified by the norm of the residual.
// Where a level has no more points in a direction than there are ranks, all ranks compute it and those below it whole:
// the reference lets ranks idle there.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "apps.h"

enum { kMostLevels = 10, kCharges = 10 };

typedef struct {
  char name;
  int levels, turns;
  double smoother[3], norm;
} Class;

static const Class kClasses[] = {
    {'S', 5, 4, {-3.0 / 8, 1.0 / 32, -1.0 / 64}, 0.5307707005734e-04},
    {'W', 7, 4, {-3.0 / 8, 1.0 / 32, -1.0 / 64}, 0.6467329375339e-05},
    {'A', 8, 4, {-3.0 / 8, 1.0 / 32, -1.0 / 64}, 0.2433365309069e-05},
    {'B', 8, 20, {-3.0 / 17, 1.0 / 33, -1.0 / 61}, 0.1800564401355e-05},
};

// A field: points x fastest, one more on each side. `ranks`: by how many the direction is shared here.
typedef struct {
  int size[3], ranks[3];
  double* at;
} Field;

static const Class* c = NULL;
static int grid[3] = {1, 1, 1}, place[3];
static int whole_level = 0;  // this level and those below are whole on every rank
static Field u[kMostLevels], r[kMostLevels], v, part;
static double *plane_out[2], *plane_in[2];

static Field new_field(int points, int shared) {
  Field f;
  size_t all = 1;
  for (int d = 0; d < 3; d++) {
    f.ranks[d] = shared ? grid[d] : 1;
    f.size[d] = points / f.ranks[d] + 2;
    all *= (size_t)f.size[d];
  }
  f.at = new_array(all, sizeof *f.at);
  return f;
}

static size_t length(const Field* f) { return (size_t)f->size[0] * (size_t)f->size[1] * (size_t)f->size[2]; }

// --- planes at the border

static int copy_plane(const Field* f, int direction, int index, double* buffer, int to_field) {
  const size_t step[3] = {1, (size_t)f->size[0], (size_t)f->size[0] * (size_t)f->size[1]};
  const int a = direction == 0, b = direction == 2 ? 1 : 2;
  double* base = f->at + step[direction] * (size_t)index;
  int n = 0;
  for (int j = 0; j < f->size[b]; j++) {
    double* line = base + step[b] * (size_t)j;
    for (int i = 0; i < f->size[a]; i++, n++) {
      double* one = line + step[a] * (size_t)i;
      *(to_field ? one : &buffer[n]) = *(to_field ? &buffer[n] : one);
    }
  }
  return n;
}

static int rank_at(int direction, int steps) {
  int at[3] = {place[0], place[1], place[2]};
  at[direction] = (at[direction] + steps + grid[direction]) % grid[direction];
  return at[0] + grid[0] * (at[1] + grid[1] * at[2]);
}

static void exchange_borders(const Field* f) {
  for (int d = 0; d < 3; d++) {
    const int last = f->size[d] - 2;
    const int n = copy_plane(f, d, 1, plane_out[0], 0);
    copy_plane(f, d, last, plane_out[1], 0);
    if (f->ranks[d] == 1) {
      copy_plane(f, d, last + 1, plane_out[0], 1);
      copy_plane(f, d, 0, plane_out[1], 1);
      continue;
    }
    MPI_Request request[2];
    for (int side = 0; side < 2; side++)  // what goes down, side 0, comes from above
      IN_MPI(MPI_Irecv(plane_in[side], n, MPI_DOUBLE, rank_at(d, side ? -1 : 1), 2 * d + side, MPI_COMM_WORLD,
                       &request[side]));
    for (int side = 0; side < 2; side++)
      IN_MPI(MPI_Send(plane_out[side], n, MPI_DOUBLE, rank_at(d, side ? 1 : -1), 2 * d + side, MPI_COMM_WORLD));
    IN_MPI(MPI_Waitall(2, request, MPI_STATUSES_IGNORE));
    copy_plane(f, d, last + 1, plane_in[0], 1);
    copy_plane(f, d, 0, plane_in[1], 1);
  }
}

// --- operators. Of a point's neighbours the sums over the four beside it (face) and the four diagonal ones (edge) in
// the plane across x are made once for each line.

static double face[(1 << 8) + 2], edge[(1 << 8) + 2];

static void sum_across(const Field* f, const double* line) {
  const ptrdiff_t y = f->size[0], z = y * f->size[1];
  for (int i = 0; i < f->size[0]; i++) {
    face[i] = line[i - y] + line[i + y] + line[i - z] + line[i + z];
    edge[i] = line[i - y - z] + line[i + y - z] + line[i - y + z] + line[i + y + z];
  }
}

static void residual(const Field* from, const Field* of, const Field* to) {
  const double centre = -8.0 / 3, beside = 1.0 / 6, corner = 1.0 / 12;
  for (int k = 1; k < to->size[2] - 1; k++) {
    for (int j = 1; j < to->size[1] - 1; j++) {
      const ptrdiff_t at = ((ptrdiff_t)k * to->size[1] + j) * to->size[0];
      const double *line = of->at + at, *right = from->at + at;
      sum_across(of, line);
      for (int i = 1; i < to->size[0] - 1; i++)
        to->at[at + i] = right[i] - centre * line[i] - beside * (edge[i] + face[i - 1] + face[i + 1]) -
                         corner * (edge[i - 1] + edge[i + 1]);
    }
  }
  exchange_borders(to);
}

static void smooth(const Field* from, const Field* to) {
  const double* w = c->smoother;
  for (int k = 1; k < to->size[2] - 1; k++) {
    for (int j = 1; j < to->size[1] - 1; j++) {
      const ptrdiff_t at = ((ptrdiff_t)k * to->size[1] + j) * to->size[0];
      const double* line = from->at + at;
      sum_across(from, line);
      for (int i = 1; i < to->size[0] - 1; i++)
        to->at[at + i] += w[0] * line[i] + w[1] * (line[i - 1] + line[i + 1] + face[i]) +
                          w[2] * (edge[i] + face[i - 1] + face[i + 1]);
    }
  }
  exchange_borders(to);
}

// A coarse point i lies on the fine one 2 i.
static void restrict_to(const Field* fine, const Field* coarse) {
  for (int k = 1; k < coarse->size[2] - 1; k++) {
    for (int j = 1; j < coarse->size[1] - 1; j++) {
      const double* line = fine->at + ((ptrdiff_t)2 * k * fine->size[1] + 2 * j) * fine->size[0];
      sum_across(fine, line);
      double* out = coarse->at + ((ptrdiff_t)k * coarse->size[1] + j) * coarse->size[0];
      for (int i = 1; i < coarse->size[0] - 1; i++) {
        const int f = 2 * i;
        out[i] = 0.5 * line[f] + 0.25 * (line[f - 1] + line[f + 1] + face[f]) +
                 0.125 * (face[f - 1] + face[f + 1] + edge[f]) + 0.0625 * (edge[f - 1] + edge[f + 1]);
      }
    }
  }
}

// Adds the coarse field, linear between its points, to the fine one, borders included.
static void interpolate(const Field* coarse, const Field* fine) {
  const ptrdiff_t y = coarse->size[0], z = y * coarse->size[1];
  for (int k = 0; k < fine->size[2]; k++) {
    for (int j = 0; j < fine->size[1]; j++) {
      const double* a = coarse->at + k / 2 * z + j / 2 * y;
      const double *b = a + (j & 1) * y, *d = a + (k & 1) * z, *e = d + (j & 1) * y;
      double* out = fine->at + ((ptrdiff_t)k * fine->size[1] + j) * fine->size[0];
      for (int i = 0; i < coarse->size[0] - 1; i++) {
        const double here = a[i] + b[i] + d[i] + e[i], next = a[i + 1] + b[i + 1] + d[i + 1] + e[i + 1];
        out[2 * i] += 0.25 * here;
        out[2 * i + 1] += 0.125 * (here + next);
      }
    }
  }
}

// --- where levels become whole

static void copy_part(const Field* whole, double* packed, const int at[3], int border, int to_whole) {
  const int n[3] = {part.size[0] - 2, part.size[1] - 2, part.size[2] - 2};
  for (int k = 1 - border; k <= n[2] + border; k++) {
    for (int j = 1 - border; j <= n[1] + border; j++) {
      for (int i = 1 - border; i <= n[0] + border; i++, packed++) {
        const int x = at[0] * n[0] + i, y = at[1] * n[1] + j, z = at[2] * n[2] + k;
        double* one = whole->at + ((ptrdiff_t)z * whole->size[1] + y) * whole->size[0] + x;
        *(to_whole ? one : packed) = *(to_whole ? packed : one);
      }
    }
  }
}

static void gather(const Field* whole) {
  const int each = (part.size[0] - 2) * (part.size[1] - 2) * (part.size[2] - 2);
  double *mine = plane_out[0], *all = new_array((size_t)each * (size_t)g_ranks, sizeof *all);
  const Field as_whole = part;
  const int origin[3] = {0, 0, 0};
  copy_part(&as_whole, mine, origin, 0, 0);
  IN_MPI(MPI_Allgather(mine, each, MPI_DOUBLE, all, each, MPI_DOUBLE, MPI_COMM_WORLD));
  for (int rank = 0; rank < g_ranks; rank++) {
    const int at[3] = {rank % grid[0], rank / grid[0] % grid[1], rank / grid[0] / grid[1]};
    copy_part(whole, all + (ptrdiff_t)each * rank, at, 0, 1);
  }
  free(all);
}

static void down(int level) {  // from the residual of `level` to that of the one below
  const Field* coarse = &r[level - 1];
  restrict_to(&r[level], level - 1 == whole_level ? &part : coarse);
  if (level - 1 == whole_level) gather(coarse);
  exchange_borders(coarse);
}

static void up(int level) {
  const Field* coarse = &u[level - 1];
  if (level - 1 == whole_level) {
    copy_part(coarse, part.at, place, 1, 0);
    coarse = &part;
  }
  interpolate(coarse, &u[level]);
}

static void cycle(void) {
  const int top = c->levels;
  for (int k = top; k > 1; k--) down(k);
  memset(u[1].at, 0, length(&u[1]) * sizeof(double));
  smooth(&r[1], &u[1]);
  for (int k = 2; k <= top; k++) {
    if (k < top) memset(u[k].at, 0, length(&u[k]) * sizeof(double));
    up(k);
    residual(k < top ? &r[k] : &v, &u[k], &r[k]);
    smooth(&r[k], &u[k]);
  }
}

// --- the problem: charges of +1 where the ten largest random numbers lie, of -1 where the ten smallest do

typedef struct {
  double value;
  int64_t at;
} Candidate;

// Keeps the ten with the greatest values, the least first.
static void offer(Candidate best[kCharges], Candidate one) {
  if (one.value <= best[0].value) return;
  int i = 0;
  for (; i + 1 < kCharges && best[i + 1].value < one.value; i++) best[i] = best[i + 1];
  best[i] = one;
}

// Every rank makes all numbers, untimed.
static void charge(void) {
  const int64_t n = (int64_t)1 << c->levels;
  Candidate best[2][kCharges];
  for (int i = 0; i < 2 * kCharges; i++) best[i / kCharges][i % kCharges] = (Candidate){-2, 0};
  uint64_t state = random_at(0);
  for (int64_t at = 0; at < n * n * n; at++) {
    const double value = random_next(&state);
    offer(best[0], (Candidate){value, at});
    offer(best[1], (Candidate){-value, at});
  }
  memset(v.at, 0, length(&v) * sizeof(double));
  for (int i = 0; i < 2 * kCharges; i++) {
    const int64_t at = best[i / kCharges][i % kCharges].at, where[3] = {at % n, at / n % n, at / n / n};
    int64_t index = 0;
    int here = 1;
    for (int d = 2; d >= 0; d--) {
      const int64_t local = where[d] - place[d] * (v.size[d] - 2) + 1;
      here = here && local >= 1 && local <= v.size[d] - 2;
      index = index * v.size[d] + local;
    }
    if (here) v.at[index] = i < kCharges ? 1 : -1;
  }
  exchange_borders(&v);
}

static double norm(const Field* f) {
  double sum = 0, most = 0, all[2];
  for (int k = 1; k < f->size[2] - 1; k++) {
    for (int j = 1; j < f->size[1] - 1; j++) {
      const double* line = f->at + ((ptrdiff_t)k * f->size[1] + j) * f->size[0];
      for (int i = 1; i < f->size[0] - 1; i++) {
        sum += line[i] * line[i];
        most = fmax(most, fabs(line[i]));
      }
    }
  }
  IN_MPI(MPI_Allreduce(&most, &all[1], 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD));
  IN_MPI(MPI_Allreduce(&sum, &all[0], 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD));
  return sqrt(all[0] / ldexp(1, 3 * c->levels));
}

static void make_fields(void) {
  int most = 1;
  for (int d = 2, left = g_ranks; left > 1; d = (d + 2) % 3, left /= 2) grid[d] *= 2;
  for (int d = 0; d < 3; d++) most = grid[d] > most ? grid[d] : most;
  if (most > 2) whole_level = log2_of(most);
  if (whole_level >= c->levels) refuse("mg: too many ranks for this class");
  place[0] = g_rank % grid[0];
  place[1] = g_rank / grid[0] % grid[1];
  place[2] = g_rank / grid[0] / grid[1];
  for (int k = 1; k <= c->levels; k++) {
    u[k] = new_field(1 << k, k > whole_level);
    r[k] = new_field(1 << k, k > whole_level);
  }
  v = new_field(1 << c->levels, 1);
  if (whole_level > 0) part = new_field(1 << whole_level, 1);
  const size_t plane = ((size_t)(1 << c->levels) + 2) * ((size_t)(1 << c->levels) + 2);
  for (int side = 0; side < 2; side++) {
    plane_out[side] = new_array(plane, sizeof(double));
    plane_in[side] = new_array(plane, sizeof(double));
  }
}

static Outcome run(char class_name) {
  for (size_t i = 0; i < sizeof kClasses / sizeof *kClasses; i++) {
    if (kClasses[i].name == class_name) c = &kClasses[i];
  }
  log2_of(g_ranks);
  make_fields();
  const Field *top_u = &u[c->levels], *top_r = &r[c->levels];
  for (int timed = 0; timed < 2; timed++) {
    memset(top_u->at, 0, length(top_u) * sizeof(double));
    charge();
    if (timed) timed_begin();
    residual(&v, top_u, top_r);
    norm(top_r);
    for (int i = 0; i < (timed ? c->turns : 1); i++) {
      cycle();
      residual(&v, top_u, top_r);
    }
  }
  const double reached = norm(top_r);
  timed_end();
  return (Outcome){!is_close(reached, c->norm, 1e-8), g_ranks <= 2, {reached, 0}};
}

const App g_mg = {"mg", "NAS MG: multigrid (borders of many sizes)", run};
