// Time, buffers, the rewriting of data and names as numbers for the MPI benchmark programs. Called by every
// sub-benchmark; sends nothing.
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

uint64_t g_errors = 0;

static int use_counter = 0;
static double ticks_per_us = 1000.0;

static double monotonic_us(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static int counter_is_invariant(void) {
#if defined(__x86_64__)
  // Both flags together: the counter neither follows the frequency nor stops in deep sleep.
  FILE* f = fopen("/proc/cpuinfo", "r");
  if (f == NULL) return 0;
  char line[8192];
  int found = 0;
  while (!found && fgets(line, sizeof line, f) != NULL)
    found =
        strncmp(line, "flags", 5) == 0 && strstr(line, " constant_tsc") != NULL && strstr(line, " nonstop_tsc") != NULL;
  fclose(f);
  return found;
#elif defined(__aarch64__)
  return 1;
#else
  return 0;
#endif
}

uint64_t ticks(void) {
#if defined(__x86_64__)
  if (use_counter) return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
  if (use_counter) {
    uint64_t v;
    __asm__ volatile("isb; mrs %0, cntvct_el0" : "=r"(v)::"memory");
    return v;
  }
#endif
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

uint64_t ticks_after_stores(void) {
#if defined(__x86_64__)
  _mm_mfence();
  _mm_lfence();
#else
  __sync_synchronize();
#endif
  return ticks();
}

void clock_setup(void) {
  use_counter = counter_is_invariant();
  if (!use_counter) return;
  double best = 0;
  double shortest = 1e18;
  // The pair of readings that was least disturbed wins: the clock call may be preempted.
  double start_us = monotonic_us();
  uint64_t start = ticks();
  while (monotonic_us() - start_us < 20000.0) {
    continue;
  }
  for (int i = 0; i < 100; i++) {
    uint64_t a = ticks();
    double us = monotonic_us();
    uint64_t b = ticks();
    if ((double)(b - a) < shortest) {
      shortest = (double)(b - a);
      best = ((double)(a - start) + (double)(b - a) / 2) / (us - start_us);
    }
  }
  ticks_per_us = best;
}

double ticks_to_us(double ticks_count) { return ticks_count / ticks_per_us; }
const char* clock_name(void) { return use_counter ? "counter" : "monotonic"; }

void compute_us(double us) {
  uint64_t start = ticks();
  while (ticks_to_us((double)(ticks() - start)) < us) {
#if defined(__x86_64__)
    _mm_pause();
#endif
  }
}

// Global arrays, as Fortran programs have them: one for each buffer that is in use at a time.
static _Alignas(4096) char static_buffers[2][16 << 20];
static int static_used;

void* buffer_get(const char* kind, size_t len_bytes) {
  void* p = NULL;
  if (strcmp(kind, "alloc_mem") == 0) {
    if (MPI_Alloc_mem((MPI_Aint)len_bytes, MPI_INFO_NULL, &p) != MPI_SUCCESS) p = NULL;
  } else if (strcmp(kind, "static") == 0) {
    if (static_used < 2 && len_bytes <= sizeof static_buffers[0]) p = static_buffers[static_used++];
  } else {
    size_t rounded = (len_bytes + 4095) / 4096 * 4096;
    p = aligned_alloc(4096, rounded);
  }
  if (p == NULL) {
    fprintf(stderr, "%s: no memory for %zu bytes (%s)\n", g_program.name, len_bytes, kind);
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  memset(p, 1, len_bytes);
  return p;
}

void buffer_put(const char* kind, void* p) {
  if (strcmp(kind, "alloc_mem") == 0)
    MPI_Free_mem(p);
  else if (strcmp(kind, "static") == 0)
    static_used--;
  else
    free(p);
}

void rewrite(void* p, size_t len_bytes, uint64_t seq) {
  char* base = p;
  if (len_bytes < 8) memcpy(base, &seq, len_bytes);
  for (size_t o = 0; o + 8 <= len_bytes; o += 64) {
    uint64_t v = seq + o;
    memcpy(base + o, &v, 8);
  }
  if (len_bytes >= 16) {
    uint64_t v = ~seq;
    memcpy(base + len_bytes - 8, &v, 8);
  }
}

void stamp(void* p) {
  uint64_t t = ticks_after_stores();
  memcpy(p, &t, 8);
}

uint64_t stamp_of(const void* p) {
  uint64_t v;
  memcpy(&v, p, 8);
  return v;
}

void verify(const void* p, size_t len_bytes, uint64_t seq, int full) {
  const char* base = p;
  if (len_bytes < 8) {
    g_errors += memcmp(p, &seq, len_bytes) != 0;
    return;
  }
  double age_us = ticks_to_us((double)(int64_t)(ticks() - stamp_of(p)));
  // A stale or foreign first word is no recent time; unsynchronised counters may differ by some microseconds.
  if (age_us < -1e4 || age_us > 60e6) g_errors++;
  if (len_bytes < 16) return;
  if (stamp_of(base + len_bytes - 8) != ~seq) g_errors++;
  if (!full) return;
  for (size_t o = 64; o + 8 < len_bytes; o += 64)
    if (stamp_of(base + o) != seq + o) g_errors++;
}

double arrived_share(const void* p, size_t len_bytes, uint64_t seq) {
  const char* base = p;
  size_t lines = 0;
  size_t there = 0;
  for (size_t o = 0; o + 8 < len_bytes; o += 64) {
    lines++;
    there += *(const volatile uint64_t*)(base + o) == seq + o;
  }
  return lines == 0 ? 0 : (double)there / (double)lines;
}

uint64_t next_seq(void) {
  static uint64_t seq = 0x100000000u;
  seq += 0x100000001u;  // larger than any offset, so that seq + offset never repeats an older message's value
  return seq;
}

static int by_value(const void* a, const void* b) {
  double x = *(const double*)a;
  double y = *(const double*)b;
  return (x > y) - (x < y);
}

double median(double* values, int count) {
  if (count <= 0) return 0;
  qsort(values, (size_t)count, sizeof *values, by_value);
  return count % 2 != 0 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

uint64_t hash_text(const char* text) {
  uint64_t hash = 1469598103934665603u;  // FNV-1a
  for (; *text != 0; text++) hash = (hash ^ (unsigned char)*text) * 1099511628211u;
  return hash;
}
