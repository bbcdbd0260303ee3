// The page that all ranks of a launch share: barriers, gathered numbers and the raw cache-line time, none of which may
// pass through the MPI library under test. Ranks of several machines share no page: their host's MPI carries these,
// over a communicator of their own. Also pinning. Knows nothing of the sub-benchmarks.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "bench.h"

enum { kGatherMax = 16, kLineRounds = 3000, kLineGroups = 5, kLines = 64 };

typedef struct {
  _Alignas(128) _Atomic uint64_t v;
} Word;

typedef struct {
  Word arrived;
  Word bcast_bits;
  Word line[2][kLines];
  Word line_done;
  Word line_us_bits[2];
  Word pair[kMaxRanks][2];
  struct {
    _Alignas(128) double values[kGatherMax];
  } slot[kMaxRanks];
  struct {
    _Alignas(128) _Atomic uint64_t turn;
    double value;
  } flat[2][kMaxRanks];  // used in turn: nobody can be two calls ahead
} Page;

MPI_Comm g_progress_comm = MPI_COMM_NULL;

static Page* page = NULL;  // NULL: agreement is by coord_comm
static MPI_Comm coord_comm = MPI_COMM_NULL;
static double* gathered_values = NULL;
static int gathered_each = 0;
static int is_crowded = 0;
static int local_rank = 0;  // among the ranks of this kernel that may use the same processors
static int local_ranks = 1;
static int machines = 1;
static int machine_of[kMaxRanks];
static int is_first = 0;  // of its machine
static uint64_t barrier_goal = 0;
static uint64_t pair_turn[kMaxRanks];
static cpu_set_t allowed;
static int pinned = -1;

// A rank that waits here is outside MPI. Hosts need it inside now and then (an acknowledgement may still wait for
// room), else the other one never comes: after some 20 us, which no measured interval contains, it probes for a message
// that nobody sends.
static void turn_progress(void) {
  enum { kNobodysTag = 32001 };
  int flag;
  if (g_progress_comm != MPI_COMM_NULL)
    MPI_Iprobe(MPI_ANY_SOURCE, kNobodysTag, g_progress_comm, &flag, MPI_STATUS_IGNORE);
}

static void relax(int turn) {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
  // With more ranks than processors the one waited for may need this processor.
  if (crowded() || turn > 20000) sched_yield();
  if (turn > 1000 && turn % 64 == 0) turn_progress();
}

// One file that all ranks see, or -1 on all of them. `folder` NULL: memory of rank 0, else a file there, which is gone
// afterwards.
static int open_backing(const char* folder) {
  char path[256] = "";
  int fd = -1;
  if (g_rank == 0) {
    if (folder == NULL) {
      fd = memfd_create("zerohop-bench-page", MFD_CLOEXEC);
      snprintf(path, sizeof path, "/proc/%ld/fd/%d", (long)getpid(), fd);
    } else {
      snprintf(path, sizeof path, "%s/p2p-bench-XXXXXX", folder);
      fd = mkstemp(path);
    }
    if (fd < 0 || posix_fallocate(fd, 0, sizeof(Page)) != 0) {
      if (fd >= 0 && folder != NULL) unlink(path);
      path[0] = 0;
    }
  }
  MPI_Bcast(path, sizeof path, MPI_CHAR, 0, coord_comm);
  if (g_rank != 0 && path[0] != 0) fd = open(path, O_RDWR | O_CLOEXEC);
  // The same number in another namespace may be another file.
  struct stat is = {0};
  int good = fd >= 0 && path[0] != 0 && fstat(fd, &is) == 0;
  uint64_t mine[2] = {(uint64_t)is.st_dev, (uint64_t)is.st_ino};
  uint64_t first[2] = {mine[0], mine[1]};
  MPI_Bcast(first, 2, MPI_UINT64_T, 0, coord_comm);
  good = good && mine[0] == first[0] && mine[1] == first[1];
  int all = 0;
  MPI_Allreduce(&good, &all, 1, MPI_INT, MPI_MIN, coord_comm);
  if (g_rank == 0 && folder != NULL && path[0] != 0) unlink(path);
  if (all) return fd;
  if (fd >= 0) close(fd);
  return -1;
}

// A page of memory needs one kernel; namespaces of it pass for machines, and see each other's files alone.
static void attach_page(void) {
  const char* folders[] = {NULL, "/dev/shm", "/tmp", "."};
  int fd = -1;
  for (int i = 0; fd < 0 && i < 4; i++) fd = open_backing(folders[i]);
  void* p = fd < 0 ? MAP_FAILED : mmap(NULL, sizeof(Page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (fd >= 0) close(fd);
  int good = p != MAP_FAILED;
  int all = 0;
  MPI_Allreduce(&good, &all, 1, MPI_INT, MPI_MIN, coord_comm);
  if (all)
    page = p;
  else if (good)
    munmap(p, sizeof(Page));
}

// Names the running kernel. 0 where the system does not say.
static uint64_t kernel_id(void) {
  char text[64] = "";
  FILE* f = fopen("/proc/sys/kernel/random/boot_id", "r");
  if (f == NULL) return 0;
  char* got = fgets(text, sizeof text, f);
  fclose(f);
  return got == NULL ? 0 : hash_text(text);
}

typedef struct {
  uint64_t kernel;
  uint64_t network;
  cpu_set_t allowed;
} Whereabouts;

// Who is on which machine: those of one kernel share its processors and perhaps a page, those of one kernel and network
// are a machine for the launcher. Returns the number of kernels.
static int find_machines(void) {
  Whereabouts mine = {.kernel = kernel_id(), .network = network_id(), .allowed = allowed};
  Whereabouts* all = calloc((size_t)g_ranks, sizeof *all);
  if (all == NULL) MPI_Abort(MPI_COMM_WORLD, 2);
  MPI_Allgather(&mine, sizeof mine, MPI_BYTE, all, sizeof mine, MPI_BYTE, coord_comm);
  int kernels = 0;
  int kernel_ranks = 0;
  cpu_set_t processors;
  CPU_ZERO(&processors);
  local_rank = local_ranks = machines = 0;
  for (int r = 0; r < g_ranks; r++) {
    int new_kernel = 1;
    machine_of[r] = -1;
    for (int e = 0; e < r; e++) {
      if (all[e].kernel != all[r].kernel) continue;
      new_kernel = 0;
      if (all[e].network == all[r].network) machine_of[r] = machine_of[e];
    }
    if (r == g_rank) is_first = machine_of[r] < 0;
    if (machine_of[r] < 0) machine_of[r] = machines++;
    kernels += new_kernel;
    if (all[r].kernel != mine.kernel) continue;
    kernel_ranks++;
    CPU_OR(&processors, &processors, &all[r].allowed);
    if (!CPU_EQUAL(&all[r].allowed, &mine.allowed)) continue;
    local_rank += r < g_rank;
    local_ranks++;
  }
  free(all);
  int here = kernel_ranks > CPU_COUNT(&processors);
  MPI_Allreduce(&here, &is_crowded, 1, MPI_INT, MPI_MAX, coord_comm);
  return kernels;
}

static int needs_page(void) {
  const char* only = g_settings.only;
  return g_program.by_page &&
         (only == NULL || g_program.without_page == NULL || strcmp(only, g_program.without_page) != 0);
}

int shared_attach(MPI_Comm comm) {
  if (g_ranks > kMaxRanks) {
    fprintf(stderr, "%s: at most %d ranks\n", g_program.name, kMaxRanks);
    return -1;
  }
  coord_comm = comm;
  const int kernels = find_machines();
  if (kernels == 1 && !g_settings.no_page) attach_page();
  if (page != NULL) return 0;
  if (needs_page()) {
    if (g_rank == 0)
      fprintf(stderr, "%s: %s\n", g_program.name,
              kernels > 1 ? "all ranks must run on one machine" : "the ranks share no page of memory or of a file");
    return -1;
  }
  gathered_values = calloc((size_t)g_ranks * kGatherMax, sizeof *gathered_values);
  return gathered_values == NULL ? -1 : 0;
}

void shared_detach(void) {
  if (page != NULL) munmap(page, sizeof(Page));
  page = NULL;
  free(gathered_values);
}

int shares_page(void) { return page != NULL; }
int crowded(void) { return is_crowded; }
int machine_count(void) { return machines; }
int machine_of_rank(int rank) { return machine_of[rank]; }
int is_first_of_machine(void) { return is_first; }

void coord_barrier(void) {
  if (page == NULL) {
    MPI_Barrier(coord_comm);
    return;
  }
  barrier_goal += (uint64_t)g_ranks;
  atomic_fetch_add(&page->arrived.v, 1);
  for (int i = 0; atomic_load(&page->arrived.v) < barrier_goal; i++) relax(i);
}

void coord_gather(const double* values, int n) {
  if (page == NULL) {
    gathered_each = n;
    MPI_Gather(values, n, MPI_DOUBLE, gathered_values, n, MPI_DOUBLE, 0, coord_comm);
    return;
  }
  coord_barrier();  // nobody still reads the last values
  memcpy(page->slot[g_rank].values, values, (size_t)n * sizeof *values);
  coord_barrier();
}

double gathered(int rank, int k) {
  return page == NULL ? gathered_values[rank * gathered_each + k] : page->slot[rank].values[k];
}

double coord_bcast(double value) {
  uint64_t bits;
  if (page == NULL) {
    MPI_Bcast(&value, 1, MPI_DOUBLE, 0, coord_comm);
    return value;
  }
  coord_barrier();
  if (g_rank == 0) {
    memcpy(&bits, &value, 8);
    atomic_store(&page->bcast_bits.v, bits);
  }
  coord_barrier();
  bits = atomic_load(&page->bcast_bits.v);
  memcpy(&value, &bits, 8);
  return value;
}

double flat_allreduce(double value) {
  static uint64_t turn = 0;
  int half = (int)(++turn % 2);
  page->flat[half][g_rank].value = value;
  atomic_store_explicit(&page->flat[half][g_rank].turn, turn, memory_order_release);
  double sum = 0;
  for (int r = 0; r < g_ranks; r++) {
    while (atomic_load_explicit(&page->flat[half][r].turn, memory_order_acquire) < turn) {
      if (crowded()) {
        sched_yield();
      } else {
#if defined(__x86_64__)
        __builtin_ia32_pause();
#endif
      }
    }
    sum += page->flat[half][r].value;
  }
  return sum;
}

void pair_sync(int slot, int side) {
  uint64_t turn = ++pair_turn[slot];
  atomic_store(&page->pair[slot][side].v, turn);
  for (int i = 0; atomic_load(&page->pair[slot][1 - side].v) < turn; i++) relax(i);
}

// Each message is one store of the time into one line; the receiver spins on it. Lines are used in turn, as a ring's
// are: one line that goes to and fro all the time can be twice as fast, and then tells nothing of messages. Both
// directions are averaged, so that a difference between the two processors' counters falls out.
static double line_side(int me) {
  static double samples[kLineRounds];
  static uint64_t seen[kLines];
  double medians[kLineGroups];
  for (int g = 0; g < kLineGroups; g++) {
    for (int k = 0; k < kLines; k++) seen[k] = atomic_load_explicit(&page->line[1 - me][k].v, memory_order_acquire);
    pair_sync(kMaxRanks - 1, me);
    for (int i = 0; i < kLineRounds; i++) {
      int k = i % kLines;
      for (int phase = 0; phase < 2; phase++) {
        if (phase == me) {
          atomic_store_explicit(&page->line[me][k].v, ticks(), memory_order_release);
        } else {
          uint64_t t;
          while ((t = atomic_load_explicit(&page->line[1 - me][k].v, memory_order_acquire)) == seen[k]) {
#if defined(__x86_64__)
            __builtin_ia32_pause();
#endif
          }
          samples[i] = (double)(int64_t)(ticks() - t);
          seen[k] = t;
        }
      }
    }
    medians[g] = ticks_to_us(median(samples, kLineRounds));
    pair_sync(kMaxRanks - 1, me);
  }
  return median(medians, kLineGroups);
}

double line_time_us(void) {
  if (page == NULL || cpu_count() < 2) return 0;
  coord_barrier();
  static uint64_t goal = 0;
  goal += 2;
  if (g_rank < 2) {
    cpu_set_t before;
    sched_getaffinity(0, sizeof before, &before);
    if (pinned < 0 || crowded()) {  // pinned for this measurement only
      int seen = 0;
      for (int c = 0; c < CPU_SETSIZE; c++) {
        if (!CPU_ISSET((size_t)c, &allowed)) continue;
        if (seen++ != g_rank) continue;
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET((size_t)c, &one);
        sched_setaffinity(0, sizeof one, &one);
        break;
      }
    }
    double us = line_side(g_rank);
    uint64_t bits;
    memcpy(&bits, &us, 8);
    atomic_store(&page->line_us_bits[g_rank].v, bits);
    sched_setaffinity(0, sizeof before, &before);
    atomic_fetch_add(&page->line_done.v, 1);
  }
  // Longer with more ranks, so that the bystanders' looks do not fill the processors.
  const struct timespec nap = {0, g_ranks <= 8 ? 200000 : 25000L * g_ranks};
  while (atomic_load(&page->line_done.v) < goal) {
    if (g_rank < 2)
      relax(0);  // no probing: the other one measures
    else
      nanosleep(&nap, NULL);  // a spinning bystander would be measured too
  }
  double sum = 0;
  for (int i = 0; i < 2; i++) {
    uint64_t bits = atomic_load(&page->line_us_bits[i].v);
    double us;
    memcpy(&us, &bits, 8);
    sum += us / 2;
  }
  coord_barrier();
  return sum;
}

int cpu_count(void) {
  static int count = 0;
  if (count == 0) count = CPU_COUNT(&allowed);
  return count;
}

// Which of the processors a rank is pinned to; -1: to none.
static int place_of(int rank, int ranks) {
  const int n = cpu_count();
  if (!g_settings.pin) return -1;
  if (ranks <= n) return rank;
  if (g_settings.placement == kBlock) return (int)((long long)rank * n / ranks);
  return g_settings.placement == kCyclic ? rank % n : -1;
}

static void pin_to(int index) {
  int seen = 0;
  for (int c = 0; c < CPU_SETSIZE; c++) {
    if (!CPU_ISSET((size_t)c, &allowed) || seen++ != index) continue;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET((size_t)c, &one);
    if (sched_setaffinity(0, sizeof one, &one) == 0) pinned = c;
    return;
  }
}

// A launcher may have bound each rank already; the processors that the machine offers to this job are then those of pid
// 1's descendants in common, which nobody can ask for. All online processors that the kernel lets us choose are taken
// instead.
static void read_allowed(void) {
  if (g_settings.processors != NULL) {  // what the kernel refuses of them stays unpinned, and the document says so
    CPU_ZERO(&allowed);
    for (const char* p = g_settings.processors; *p != 0; p += *p == ',') {
      char* end;
      CPU_SET((size_t)strtoul(p, &end, 10), &allowed);
      p = end;
    }
    return;
  }
  sched_getaffinity(0, sizeof allowed, &allowed);
  if (CPU_COUNT(&allowed) > 1) return;
  cpu_set_t mine = allowed;
  cpu_set_t all;
  memset(&all, 0xff, sizeof all);
  if (sched_setaffinity(0, sizeof all, &all) == 0) sched_getaffinity(0, sizeof allowed, &allowed);
  sched_setaffinity(0, sizeof mine, &mine);
}

static int env_number(const char* const* names) {
  for (; *names != NULL; names++) {
    const char* v = getenv(*names);
    if (v != NULL && *v != 0) return atoi(v);
  }
  return -1;
}

void pin_before_init(void) {
  // The library under test may measure distances inside MPI_Init: be where we stay before it.
  static const char* const rank_names[] = {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "PMI_RANK", "PMIX_RANK",
                                           NULL};
  static const char* const size_names[] = {"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "PMI_SIZE", NULL};
  // Machines made of namespaces (dev/on_machines.py) have the same processors: there the ranks of all count.
  static const char* const all_rank_names[] = {"OMPI_COMM_WORLD_RANK", "PMI_RANK", NULL};
  static const char* const all_size_names[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", NULL};
  const int one_kernel = getenv("ZH_ONE_KERNEL") != NULL;
  read_allowed();
  int rank = env_number(one_kernel ? all_rank_names : rank_names);
  int size = env_number(one_kernel ? all_size_names : size_names);
  if (rank >= 0 && size > 0 && place_of(rank, size) >= 0) pin_to(place_of(rank, size));
}

void pin_after_init(void) {
  const int place = place_of(local_rank, local_ranks);
  if (place < 0) {
    pinned = -1;
    sched_setaffinity(0, sizeof allowed, &allowed);
    return;
  }
  pin_to(place);
}

int pinned_cpu(void) { return pinned; }

// With a processor for each rank the median, which other work on the machine hardly moves; where ranks take turns,
// waiting for the scheduler is part of every program's time, and rare long waits are most of it.
double typical_us(double* times_us, int count) {
  if (!crowded()) return median(times_us, count);
  double sum = 0;
  for (int i = 0; i < count; i++) sum += times_us[i];
  return count > 0 ? sum / count : 0;
}
