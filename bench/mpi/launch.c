// One launch of an MPI benchmark program: it measures arms (communicators) against each other within one process, and
// writes one JSON document (its fields: bench/README.md). Started by `zerohop bench`, or by hand after any mpiexec.
// What is measured is the program's (g_program); this judges nothing.
#define _GNU_SOURCE
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"

Settings g_settings = {.label = "",
                       .buffers = "malloc",
                       .forms = "blocking",
                       .memory_match = "zerohop",
                       .blocks = 5,
                       .block_us = 4000,
                       .pin = 1};
int g_rank = 0;
int g_ranks = 1;

static const char kHelp[] =
    "  --out FILE           write the JSON document there (default: standard output)\n"
    "  --arms LIST          communicators to alternate, of: host (stays with the host MPI), zerohop (plain). Repeating "
    "one\n"
    "                       measures the noise. Default: host\n"
    "  --buffers LIST       malloc,static,alloc_mem (default malloc)\n"
    "  --blocks N           blocks of each arm per case (default 5)\n"
    "  --block-us N         aimed length of a block (default 4000)\n"
    "  --case-s N           no further block of a case that has taken this long (default: no limit)\n"
    "  --label TEXT         name of this launch in the document\n"
    "  --memory-match TEXT  mappings with this in their name are the library's memory (default zerohop)\n"
    "  --quick              fewer sizes and depths\n"
    "  --processors LIST    those of each machine alone, such as 2,5: the first rank on the lowest number, and so on\n"
    "  --no-pin             leave the processor choice to launcher and kernel\n"
    "  --no-page            agree over the host MPI, as where no memory is shared\n"
    "  --placement HOW      of more ranks than processors: free (default), block, cyclic\n";

static int parse_sizes(const char* list) {
  const char* p = list;
  while (*p != 0) {
    char* end;
    unsigned long long v = strtoull(p, &end, 10);
    if (end == p) return -1;
    if (*end == 'K' || *end == 'k') v <<= 10, end++;
    if (*end == 'M' || *end == 'm') v <<= 20, end++;
    int tiny = g_program.tiny_sizes && (v <= 2 || v == 4);
    if (v > g_program.size_most || ((v == 0 || v % g_program.size_step != 0) && !tiny)) return -1;
    if (g_settings.size_count == kMaxSizes) return -1;
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

static int parse_placement(const char* word) {
  static const char* const words[] = {[kFree] = "free", [kBlock] = "block", [kCyclic] = "cyclic"};
  for (int i = kFree; i <= kCyclic; i++) {
    if (strcmp(word, words[i]) != 0) continue;
    g_settings.placement = (Placement)i;
    return 0;
  }
  return -1;
}

static int is_processor_list(const char* list) { return *list != 0 && strspn(list, "0123456789,") == strlen(list); }

static int is_form_list(const char* list) {
  static const char* const forms[] = {"blocking", "nonblocking", "persistent"};
  size_t known = 0;
  size_t words = 1;
  for (int i = 0; i < 3; i++) known += (size_t)in_list(list, forms[i]);
  for (const char* p = list; *p != 0; p++) words += *p == ',';
  return known == words;
}

static const struct option kOptions[] = {{"out", 1, 0, 'o'},
                                         {"arms", 1, 0, 'a'},
                                         {"only", 1, 0, 'l'},
                                         {"sizes", 1, 0, 's'},
                                         {"buffers", 1, 0, 'b'},
                                         {"blocks", 1, 0, 'n'},
                                         {"label", 1, 0, 't'},
                                         {"memory-match", 1, 0, 'm'},
                                         {"quick", 0, 0, 'q'},
                                         {"no-pin", 0, 0, 'p'},
                                         {"block-us", 1, 0, 'u'},
                                         {"help", 0, 0, 'h'},
                                         {"case-s", 1, 0, 'c'},
                                         {"rotate-root", 0, 0, 'r'},
                                         {"placement", 1, 0, 'w'},
                                         {"no-page", 0, 0, 'g'},
                                         {"processors", 1, 0, 'x'},
                                         {"form", 1, 0, 'f'},
                                         {0, 0, 0, 0}};

static int parse(int argc, char** argv) {
  static char default_arms[] = "host";
  parse_arms(default_arms);
  int o;
  while ((o = getopt_long(argc, argv, "", kOptions, NULL)) != -1) {
    int bad = 0;
    if (o == 'o') g_settings.out_path = optarg;
    if (o == 'a') bad = parse_arms(optarg);
    if (o == 'l') g_settings.only = optarg;
    if (o == 's') bad = parse_sizes(optarg);
    if (o == 'b') g_settings.buffers = optarg;
    if (o == 'n') bad = (g_settings.blocks = atoi(optarg)) < 1 || g_settings.blocks > kMaxBlocks;
    if (o == 'u') bad = (g_settings.block_us = atof(optarg)) <= 0;
    if (o == 'c') bad = (g_settings.case_s = atof(optarg)) <= 0;
    if (o == 'r') g_settings.rotate_root = 1;
    if (o == 't') g_settings.label = optarg;
    if (o == 'm') g_settings.memory_match = optarg;
    if (o == 'q') g_settings.quick = 1;
    if (o == 'p') g_settings.pin = 0;
    if (o == 'g') g_settings.no_page = 1;
    if (o == 'x') bad = !is_processor_list(g_settings.processors = optarg);
    if (o == 'w') bad = parse_placement(optarg);
    if (o == 'f') bad = !is_form_list(g_settings.forms = optarg);
    if (o == 'h') {
      printf("%s: %s\n%s", g_program.name, g_program.about, g_program.options);
      printf("  --sizes LIST         %s, with K or M; default: each sub-benchmark's own list\n%s", g_program.sizes,
             kHelp);
      exit(0);
    }
    if (o == '?' || bad) {
      if (bad) fprintf(stderr, "%s: bad value: %s\n", g_program.name, optarg);
      return -1;
    }
  }
  return 0;
}

// Any MPI ignores a key that it does not know, so that the same program measures hosts that never heard of it.
MPI_Comm communicator_of(const char* arm, MPI_Comm from) {
  MPI_Comm comm;
  MPI_Info info;
  MPI_Info_create(&info);
  if (strcmp(arm, "host") == 0) MPI_Info_set(info, "zerohop", "off");
  MPI_Comm_dup_with_info(from, info, &comm);
  MPI_Info_free(&info);
  return comm;
}

int main(int argc, char** argv) {
  if (parse(argc, argv) != 0) return 2;
  pin_before_init();
  clock_setup();
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &g_rank);
  MPI_Comm_size(MPI_COMM_WORLD, &g_ranks);
  if (g_ranks < 2) {
    fprintf(stderr, "%s: at least two ranks are needed\n", g_program.name);
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  MPI_Comm agreement = communicator_of("host", MPI_COMM_WORLD);
  if (shared_attach(agreement) != 0) MPI_Abort(MPI_COMM_WORLD, 2);
  pin_after_init();
  for (int a = 0; a < g_settings.arm_count; a++)
    g_settings.arm_comm[a] = communicator_of(g_settings.arm_name[a], MPI_COMM_WORLD);
  int cpu = pinned_cpu();
  int* cpus = calloc((size_t)g_ranks, sizeof *cpus);
  MPI_Gather(&cpu, 1, MPI_INT, cpus, 1, MPI_INT, 0, agreement);
  results_open();
  double line_before_us = line_time_us();
  g_program.run();
  double line_after_us = line_time_us();
  results_close(line_before_us, line_after_us, cpus);
  int failed = g_errors != 0;
  if (failed) {
    fprintf(stderr, "%s: rank %d saw %llu wrong words\n", g_program.name, g_rank, (unsigned long long)g_errors);
  }
  coord_barrier();
  shared_detach();
  for (int a = 0; a < g_settings.arm_count; a++) MPI_Comm_free(&g_settings.arm_comm[a]);
  MPI_Comm_free(&agreement);
  free(cpus);
  MPI_Finalize();
  return failed;
}
