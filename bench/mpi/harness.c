// Runs one case: arms alternate block by block, and the document of results is written as it goes. Called by every
// sub-benchmark. Knows no message pattern and judges nothing: the numbers are judged by `zerohop bench`.
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"

static FILE* out = NULL;
static int case_count = 0;

static void put_string(const char* s) {
  fputc('"', out);
  for (; *s != 0; s++) {
    if (*s == '"' || *s == '\\') fputc('\\', out);
    if ((unsigned char)*s >= 32) fputc(*s, out);
  }
  fputc('"', out);
}

static int zerohop_is_loaded(void) {
  FILE* f = fopen("/proc/self/maps", "r");
  if (f == NULL) return 0;
  char line[4096];
  int found = 0;
  while (!found && fgets(line, sizeof line, f) != NULL) found = strstr(line, "libzerohop") != NULL;
  fclose(f);
  return found;
}

void results_open(void) {
  if (g_rank != 0) return;
  out = g_settings.out_path == NULL ? stdout : fopen(g_settings.out_path, "w");
  if (out == NULL) {
    perror(g_settings.out_path);
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  char version[MPI_MAX_LIBRARY_VERSION_STRING];
  int len = 0;
  MPI_Get_library_version(version, &len);
  version[strcspn(version, "\n")] = 0;
  fprintf(out, "{\"schema\": \"%s\",\n \"label\": ", g_program.schema);
  put_string(g_settings.label);
  fprintf(out, ", \"library\": ");
  put_string(version);
  fprintf(out, ",\n \"ranks\": %d, \"processors\": %d, \"clock\": \"%s\", \"zerohop_loaded\": %s,\n \"arms\": [",
          g_ranks, cpu_count(), clock_name(), zerohop_is_loaded() ? "true" : "false");
  for (int a = 0; a < g_settings.arm_count; a++) fprintf(out, "%s\"%s\"", a ? ", " : "", g_settings.arm_name[a]);
  fprintf(out, "],\n \"blocks\": %d, \"block_us\": %.0f,\n \"cases\": [", g_settings.blocks, g_settings.block_us);
}

// node::kVirtualLines of src/node/node.h: the engine and its benchmarks draw the same line.
static const double kNearLineUs = 0.1;
static const char* placement(double us) { return us <= 0 ? "none" : us <= kNearLineUs ? "near" : "far"; }

void results_close(double line_before_us, double line_after_us, const int* cpus) {
  double errors = (double)g_errors;
  coord_gather(&errors, 1);
  if (g_rank != 0) return;
  errors = 0;
  for (int r = 0; r < g_ranks; r++) errors += gathered(r, 0);
  const char* before = placement(line_before_us);
  const char* after = placement(line_after_us);
  fprintf(out, "],\n \"cpus\": [");
  for (int r = 0; r < g_ranks; r++) fprintf(out, "%s%d", r ? ", " : "", cpus[r]);
  fprintf(out, "],\n \"machine_of\": [");
  for (int r = 0; r < g_ranks; r++) fprintf(out, "%s%d", r ? ", " : "", machine_of_rank(r));
  fprintf(out, "],\n \"line_us\": {\"before\": %.4f, \"after\": %.4f}, \"placement\": \"%s\",\n", line_before_us,
          line_after_us,
          machine_count() > 1 || !shares_page() ? "several"
          : strcmp(before, after) == 0          ? before
                                                : "mixed");
  fprintf(out, " \"errors\": %.0f}\n", errors);
  if (out != stdout) fclose(out);
  g_errors = (uint64_t)errors;
}

int in_list(const char* list, const char* word) {
  size_t len = strlen(word);
  for (const char* p = list; p != NULL && *p != 0;) {
    size_t n = strcspn(p, ",");
    if (n == len && strncmp(p, word, n) == 0) return 1;
    p += n;
    if (*p == ',') p++;
  }
  return 0;
}

int selected(const char* bench) { return g_settings.only == NULL || in_list(g_settings.only, bench); }

int sizes_for(const size_t* own, int own_count, size_t least, size_t* result) {
  const size_t* from = g_settings.size_count > 0 ? g_settings.sizes : own;
  int count = g_settings.size_count > 0 ? g_settings.size_count : own_count;
  int n = 0;
  for (int i = 0; i < count; i++)
    if (from[i] >= least) result[n++] = from[i];
  return n;
}

int each_buffers(const char* kinds[3]) {
  int n = 0;
  if (in_list(g_settings.buffers, "malloc")) kinds[n++] = "malloc";
  if (in_list(g_settings.buffers, "static")) kinds[n++] = "static";
  if (in_list(g_settings.buffers, "alloc_mem")) kinds[n++] = "alloc_mem";
  return n;
}

static int choose_iters(const Case* c, double pilot_s, int pilot_iters) {
  double per_us = pilot_s * 1e6 / pilot_iters;
  // With ranks that take turns on a processor a block must hold many turns of the scheduler (some 4 ms each).
  double block_us = crowded() ? 10 * g_settings.block_us : g_settings.block_us;
  double want = per_us > 0 ? block_us / per_us : c->max_iters;
  int iters = want > c->max_iters ? c->max_iters : (int)want;
  if (iters < c->min_iters) iters = c->min_iters;
  return (int)coord_bcast(iters);
}

void run_case(Case* c) {
  static double values[kMaxArms][kMaxMetrics][kMaxBlocks];
  int arms = g_settings.arm_count;
  int iters[kMaxArms];
  for (int a = 0; a < arms;
       a++) {  // paths warm up, buffers are touched, every line is verified; then the pace is measured
    double ignored[kMaxMetrics];
    int pilot = c->min_iters;
    coord_barrier();
    g_progress_comm = g_settings.arm_comm[a];
    c->block(c, g_settings.arm_comm[a], 2, 1, ignored);
    double seconds = c->block(c, g_settings.arm_comm[a], 0, pilot, ignored);
    iters[a] = choose_iters(c, seconds, pilot);
    if (iters[a] <= 4 * pilot) {  // slow, or disturbed: the faster of two
      double again = c->block(c, g_settings.arm_comm[a], 0, pilot, ignored);
      iters[a] = choose_iters(c, again < seconds ? again : seconds, pilot);
    }
    if (iters[a] > 4 * pilot) {  // the first few were slow: once more with enough of them
      pilot = iters[a] / 4;
      seconds = c->block(c, g_settings.arm_comm[a], 0, pilot, ignored);
      iters[a] = choose_iters(c, seconds, pilot);
    }
  }
  int blocks = 0;
  uint64_t begin = ticks();
  for (int over = 0; blocks < g_settings.blocks && !over; blocks++) {
    int b = blocks;
    for (int a = 0; a < arms; a++) {
      double result[kMaxMetrics] = {0};
      int warm = iters[a] >= 10 || g_settings.case_s <= 0 ? iters[a] / 10 + 1 : 0;
      coord_barrier();
      g_progress_comm = g_settings.arm_comm[a];
      c->block(c, g_settings.arm_comm[a], warm, iters[a], result);
      for (int m = 0; m < c->metric_count; m++) values[a][m][b] = result[m];
    }
    if (g_settings.case_s > 0)
      over = (int)coord_bcast(ticks_to_us((double)(ticks() - begin)) > g_settings.case_s * 1e6);
  }
  if (g_rank != 0) return;
  fprintf(out, "%s\n  {\"bench\": \"%s\", \"size\": %zu, \"buffers\": \"%s\"", case_count++ ? "," : "", c->bench,
          c->size_bytes, c->buffers);
  if (c->variant != NULL) fprintf(out, ", \"variant\": \"%s\"", c->variant);
  if (c->param_name != NULL) fprintf(out, ", \"%s\": %g", c->param_name, c->param);
  if (c->window > 0) fprintf(out, ", \"window\": %d", c->window);
  fprintf(out, ", \"iters\": [");
  for (int a = 0; a < arms; a++) fprintf(out, "%s%d", a ? ", " : "", iters[a]);
  fprintf(out, "], \"metrics\": {");
  for (int m = 0; m < c->metric_count; m++) {
    fprintf(out, "%s\"%s\": [", m ? ", " : "", c->metric_name[m]);
    for (int a = 0; a < arms; a++) {
      fprintf(out, "%s[", a ? ", " : "");
      for (int b = 0; b < blocks; b++) fprintf(out, "%s%.6g", b ? ", " : "", values[a][m][b]);
      fprintf(out, "]");
    }
    fprintf(out, "]");
  }
  fprintf(out, "}}");
  fflush(out);
}
