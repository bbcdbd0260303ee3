// FT of the NAS benchmarks: a 3-D diffusion equation solved by Fourier transforms, whose transposes are one
// MPI_Alltoall each. Slabs: planes of z on the ranks, after the transpose rows of y. Verified by a checksum a turn.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "apps.h"

enum { kMostTurns = 20 };

typedef struct {
  double re, im;
} Complex;

typedef struct {
  char name;
  int nx, ny, nz, turns;
  Complex sum[kMostTurns];
} Class;

static const Class kClasses[] = {
    {'S',
     64,
     64,
     64,
     6,
     {{5.546087004964e+02, 4.845363331978e+02},
      {5.546385409189e+02, 4.865304269511e+02},
      {5.546148406171e+02, 4.883910722336e+02},
      {5.545423607415e+02, 4.901273169046e+02},
      {5.544255039624e+02, 4.917475857993e+02},
      {5.542683411902e+02, 4.932597244941e+02}}},
    {'W',
     128,
     128,
     32,
     6,
     {{5.673612178944e+02, 5.293246849175e+02},
      {5.631436885271e+02, 5.282149986629e+02},
      {5.594024089970e+02, 5.270996558037e+02},
      {5.560698047020e+02, 5.260027904925e+02},
      {5.530898991250e+02, 5.249400845633e+02},
      {5.504159734538e+02, 5.239212247086e+02}}},
    {'A',
     256,
     256,
     128,
     6,
     {{5.046735008193e+02, 5.114047905510e+02},
      {5.059412319734e+02, 5.098809666433e+02},
      {5.069376896287e+02, 5.098144042213e+02},
      {5.077892868474e+02, 5.101336130759e+02},
      {5.085233095391e+02, 5.104914655194e+02},
      {5.091487099959e+02, 5.107917842803e+02}}},
    {'B', 512, 256, 256, 20, {{5.177643571579e+02, 5.077803458597e+02}, {5.154521291263e+02, 5.088249431599e+02},
                              {5.146409228649e+02, 5.096208912659e+02}, {5.142378756213e+02, 5.101023387619e+02},
                              {5.139626667737e+02, 5.103976610617e+02}, {5.137423460082e+02, 5.105948019802e+02},
                              {5.135547056878e+02, 5.107404165783e+02}, {5.133910925466e+02, 5.108576573661e+02},
                              {5.132470705390e+02, 5.109577278523e+02}, {5.131197729984e+02, 5.110460304483e+02},
                              {5.130070319283e+02, 5.111252433800e+02}, {5.129070537032e+02, 5.111968077718e+02},
                              {5.128182883502e+02, 5.112616233064e+02}, {5.127393733383e+02, 5.113203605551e+02},
                              {5.126691062020e+02, 5.113735928093e+02}, {5.126064276004e+02, 5.114218460548e+02},
                              {5.125504076570e+02, 5.114656139760e+02}, {5.125002331720e+02, 5.115053595966e+02},
                              {5.124551951846e+02, 5.115415130407e+02}, {5.124146770029e+02, 5.115744692211e+02}}},
};

static const Class* c = NULL;
static int planes = 0, rows = 0;       // of z and of y on a rank
static size_t points = 0;              // of a rank
static Complex *field, *work, *space;  // space: the field's transform, as it is now
static double* decay;                  // of each point of space in one turn
static Complex* roots = NULL;          // exp(2 pi i k / n) of the longest n
static int root_count = 0;

static void make_roots(void) {
  const double pi = acos(-1.0);
  root_count = c->nx > c->ny ? c->nx : c->ny;
  if (c->nz > root_count) root_count = c->nz;
  roots = new_array((size_t)root_count, sizeof *roots);
  for (int k = 0; k < root_count; k++) {
    roots[k].re = cos(2 * pi * k / root_count);
    roots[k].im = sin(2 * pi * k / root_count);
  }
}

// Transforms the first direction of x[n][width] (Stockham's radix 2); y is as large. The result is in x.
static void transform(Complex* x, Complex* y, int n, size_t width, int sign) {
  Complex *from = x, *to = y;
  size_t stride = width;
  for (int left = n; left > 1; left /= 2, stride *= 2) {
    const int half = left / 2;
    for (int p = 0; p < half; p++) {
      Complex w = roots[(size_t)p * (size_t)(root_count / left)];
      w.im *= sign;
      const Complex *a = from + stride * (size_t)p, *b = a + stride * (size_t)half;
      Complex *sum = to + stride * 2 * (size_t)p, *difference = sum + stride;
      for (size_t q = 0; q < stride; q++) {
        const double re = a[q].re - b[q].re, im = a[q].im - b[q].im;
        sum[q].re = a[q].re + b[q].re;
        sum[q].im = a[q].im + b[q].im;
        difference[q].re = re * w.re - im * w.im;
        difference[q].im = re * w.im + im * w.re;
      }
    }
    Complex* other = from;
    from = to;
    to = other;
  }
  if (from != x) memcpy(x, from, (size_t)n * width * sizeof *x);
}

static void transform_planes(Complex* x, int sign) {
  const size_t nx = (size_t)c->nx, plane = nx * (size_t)c->ny;
  for (int z = 0; z < planes; z++) {
    for (int y = 0; y < c->ny; y++) transform(x + (size_t)z * plane + (size_t)y * nx, work, c->nx, 1, sign);
    transform(x + (size_t)z * plane, work, c->ny, nx, sign);
  }
}

// Between x[z of the rank][rank][y of it][x] and, packed for one message to each, x[rank][z][y][x].
static void pack(const Complex* from, Complex* to, int unpack) {
  const size_t piece = (size_t)rows * (size_t)c->nx;
  for (int z = 0; z < planes; z++) {
    for (int r = 0; r < g_ranks; r++) {
      const size_t plain = ((size_t)z * (size_t)g_ranks + (size_t)r) * piece;
      const size_t packed = ((size_t)r * (size_t)planes + (size_t)z) * piece;
      memcpy(to + (unpack ? plain : packed), from + (unpack ? packed : plain), piece * sizeof *to);
    }
  }
}

static void all_to_all(const Complex* from, Complex* to) {
  const int doubles = (int)(2 * points / (size_t)g_ranks);
  IN_MPI(MPI_Alltoall(from, doubles, MPI_DOUBLE, to, doubles, MPI_DOUBLE, MPI_COMM_WORLD));
}

// field[z of the rank][y][x] to space[z][y of the rank][x].
static void forward(void) {
  transform_planes(field, 1);
  pack(field, work, 0);
  all_to_all(work, space);
  transform(space, work, c->nz, (size_t)rows * (size_t)c->nx, 1);
}

static void backward(void) {  // leaves space as it is
  memcpy(field, space, points * sizeof *field);
  transform(field, work, c->nz, (size_t)rows * (size_t)c->nx, -1);
  all_to_all(field, work);
  pack(work, field, 1);
  transform_planes(field, -1);
}

static void fill(void) {
  uint64_t state = random_at(2 * points * (uint64_t)g_rank);  // planes follow each other
  for (size_t i = 0; i < points; i++) {
    field[i].re = random_next(&state);
    field[i].im = random_next(&state);
  }
}

static double square_of_wave(int k, int n) {
  const int wave = k < n / 2 ? k : k - n;
  return (double)wave * wave;
}

static void make_decay(void) {
  const double pi = acos(-1.0), alpha = 1e-6;
  size_t i = 0;
  for (int z = 0; z < c->nz; z++) {
    for (int y = g_rank * rows; y < (g_rank + 1) * rows; y++) {
      for (int x = 0; x < c->nx; x++) {
        const double square = square_of_wave(x, c->nx) + square_of_wave(y, c->ny) + square_of_wave(z, c->nz);
        decay[i++] = exp(-4 * alpha * pi * pi * square);
      }
    }
  }
}

static void evolve(void) {
  for (size_t i = 0; i < points; i++) {
    space[i].re *= decay[i];
    space[i].im *= decay[i];
  }
}

static Complex checksum(void) {
  Complex mine = {0, 0}, sum = {0, 0};
  for (int j = 1; j <= 1024; j++) {
    const int x = j % c->nx, y = 3 * j % c->ny, z = 5 * j % c->nz - g_rank * planes;
    if (z < 0 || z >= planes) continue;
    const Complex* at = field + ((size_t)z * (size_t)c->ny + (size_t)y) * (size_t)c->nx + x;
    mine.re += at->re;
    mine.im += at->im;
  }
  IN_MPI(MPI_Reduce(&mine, &sum, 2, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD));
  const double total = (double)points * g_ranks;
  return (Complex){sum.re / total, sum.im / total};
}

static Outcome run(char class_name) {
  for (size_t i = 0; i < sizeof kClasses / sizeof *kClasses; i++) {
    if (kClasses[i].name == class_name) c = &kClasses[i];
  }
  log2_of(g_ranks);
  if (g_ranks > c->ny || g_ranks > c->nz) refuse("ft: more ranks than planes");
  planes = c->nz / g_ranks;
  rows = c->ny / g_ranks;
  points = (size_t)c->nx * (size_t)c->ny * (size_t)planes;
  field = new_array(points, sizeof *field);
  work = new_array(points, sizeof *work);
  space = new_array(points, sizeof *space);
  decay = new_array(points, sizeof *decay);
  make_roots();
  make_decay();
  fill();
  forward();
  Complex sums[kMostTurns];
  timed_begin();
  make_decay();
  fill();
  forward();
  for (int turn = 0; turn < c->turns; turn++) {
    evolve();
    backward();
    sums[turn] = checksum();
  }
  timed_end();
  Outcome out = {0, g_ranks <= 2, {sums[c->turns - 1].re, sums[c->turns - 1].im}};
  for (int turn = 0; turn < c->turns && g_rank == 0; turn++) {
    const Complex right = c->sum[turn];
    const double off = hypot(sums[turn].re - right.re, sums[turn].im - right.im);
    out.errors += !(off / hypot(right.re, right.im) <= 1e-12);
  }
  return out;
}

const App g_ft = {"ft", "NAS FT: Fourier transforms (Alltoall)", run};
