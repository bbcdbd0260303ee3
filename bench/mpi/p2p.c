// The point-to-point benchmark: an MPI program that measures arms (communicators) against each other within one
// process, and writes one JSON document (its fields: bench/README.md). Started by `zerohop bench p2p`, or by hand after
// any mpiexec. It judges nothing.
#define _GNU_SOURCE
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "p2p.h"

Settings g_settings = {
    .label = "", .buffers = "malloc", .memory_match = "zerohop", .blocks = 5, .block_us = 4000, .pin = 1};
int g_rank = 0;
int g_ranks = 1;

static const char kHelp[] =
    "p2p: point-to-point benchmark of one launch (start it with mpiexec -n 2 or more)\n"
    "  --out FILE           write the JSON document there (default: standard output)\n"
    "  --arms LIST          communicators to alternate, of: host (stays with the host MPI), zerohop (plain). Repeating "
    "one\n"
    "                       measures the noise. Default: host\n"
    "  --only LIST          latency,noreuse,queues,bandwidth,bidirectional,rate,overlap,skew,breakdown (2 ranks);\n"
    "                       multipair,pairs,exchange,everybody (any number)\n"
    "  --sizes LIST         bytes, with K or M; default: each sub-benchmark's own list\n"
    "  --buffers LIST       malloc,static,alloc_mem (default malloc)\n"
    "  --blocks N           blocks of each arm per case (default 5)\n"
    "  --block-us N         aimed length of a block (default 4000)\n"
    "  --label TEXT         name of this launch in the document\n"
    "  --memory-match TEXT  mappings with this in their name are the library's memory (default zerohop)\n"
    "  --quick              fewer sizes and depths\n"
    "  --no-pin             leave the processor choice to launcher and kernel\n";

static int parse_sizes(const char* list) {
  const char* p = list;
  while (*p != 0) {
    char* end;
    unsigned long long v = strtoull(p, &end, 10);
    if (end == p) return -1;
    if (*end == 'K' || *end == 'k') v <<= 10, end++;
    if (*end == 'M' || *end == 'm') v <<= 20, end++;
    if (v < 8 || v > (1u << 30) || v % 8 != 0 || g_settings.size_count == kMaxSizes) return -1;
    g_settings.sizes[g_settings.size_count++] = (size_t)v;
    if (*end == ',') end++;
    p = end;
  }
  return 0;
}

static int parse_arms(char* list) {
  g_settings.arm_count = 0;
  for (char* word = strtok(list, ","); word != NULL; word = strtok(NULL, ",")) {
    if (g_settings.arm_count == kMaxArms) return -1;
    if (strcmp(word, "host") != 0 && strcmp(word, "zerohop") != 0) return -1;
    g_settings.arm_name[g_settings.arm_count++] = word;
  }
  return g_settings.arm_count > 0 ? 0 : -1;
}

static int parse(int argc, char** argv) {
  static const struct option options[] = {{"out", 1, 0, 'o'},    {"arms", 1, 0, 'a'},         {"only", 1, 0, 'l'},
                                          {"sizes", 1, 0, 's'},  {"buffers", 1, 0, 'b'},      {"blocks", 1, 0, 'n'},
                                          {"label", 1, 0, 't'},  {"memory-match", 1, 0, 'm'}, {"quick", 0, 0, 'q'},
                                          {"no-pin", 0, 0, 'p'}, {"block-us", 1, 0, 'u'},     {"help", 0, 0, 'h'},
                                          {0, 0, 0, 0}};
  static char default_arms[] = "host";
  parse_arms(default_arms);
  int o;
  while ((o = getopt_long(argc, argv, "", options, NULL)) != -1) {
    int bad = 0;
    if (o == 'o') g_settings.out_path = optarg;
    if (o == 'a') bad = parse_arms(optarg);
    if (o == 'l') g_settings.only = optarg;
    if (o == 's') bad = parse_sizes(optarg);
    if (o == 'b') g_settings.buffers = optarg;
    if (o == 'n') bad = (g_settings.blocks = atoi(optarg)) < 1 || g_settings.blocks > kMaxBlocks;
    if (o == 'u') bad = (g_settings.block_us = atof(optarg)) <= 0;
    if (o == 't') g_settings.label = optarg;
    if (o == 'm') g_settings.memory_match = optarg;
    if (o == 'q') g_settings.quick = 1;
    if (o == 'p') g_settings.pin = 0;
    if (o == 'h') {
      fputs(kHelp, stdout);
      exit(0);
    }
    if (o == '?' || bad) {
      if (bad) fprintf(stderr, "p2p: bad value: %s\n", optarg);
      return -1;
    }
  }
  return 0;
}

static void make_arms(void) {
  for (int a = 0; a < g_settings.arm_count; a++) {
    MPI_Info info;
    MPI_Info_create(&info);
    // Any MPI ignores a key that it does not know, so that the same program measures hosts that never heard of it.
    if (strcmp(g_settings.arm_name[a], "host") == 0) MPI_Info_set(info, "zerohop", "off");
    MPI_Comm_dup_with_info(MPI_COMM_WORLD, info, &g_settings.arm_comm[a]);
    MPI_Info_free(&info);
  }
}

int main(int argc, char** argv) {
  if (parse(argc, argv) != 0) return 2;
  pin_before_init();
  clock_setup();
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &g_rank);
  MPI_Comm_size(MPI_COMM_WORLD, &g_ranks);
  pin_after_init();
  if (g_ranks < 2) {
    fprintf(stderr, "p2p: at least two ranks are needed\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  make_arms();
  if (shared_attach(g_settings.arm_comm[0]) != 0) MPI_Abort(MPI_COMM_WORLD, 2);
  int cpu = pinned_cpu();
  int* cpus = calloc((size_t)g_ranks, sizeof *cpus);
  MPI_Gather(&cpu, 1, MPI_INT, cpus, 1, MPI_INT, 0, g_settings.arm_comm[0]);
  results_open();
  double line_before_us = line_time_us();
  if (g_ranks == 2) {
    bench_pingpong();
    bench_stream();
    bench_progress();
  } else {
    bench_stream();
  }
  bench_many();
  double line_after_us = line_time_us();
  results_close(line_before_us, line_after_us, cpus);
  int failed = g_errors != 0;
  if (failed) fprintf(stderr, "p2p: rank %d saw %llu wrong words\n", g_rank, (unsigned long long)g_errors);
  coord_barrier();
  shared_detach();
  for (int a = 0; a < g_settings.arm_count; a++) MPI_Comm_free(&g_settings.arm_comm[a]);
  free(cpus);
  MPI_Finalize();
  return failed;
}
