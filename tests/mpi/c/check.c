// main() of mpi_semantics: picks cases, runs them on all ranks together, prints one line for each, and guards them by
// a watchdog. Called by run_matrix.py or by hand. It refuses to know what a case tests.
//
//   mpi_semantics [--list] [--filter GLOB[,GLOB]] [--skip GLOB[,GLOB]] [--after NAME] [--thread single|multiple]
//                 [--effort low|normal|high] [--seed N] [--timeout SECONDS] [--trace] [--scenario NAME]
// Lines of rank 0: `ok NAME`, `FAIL NAME: why`, `skip NAME: reason`; with --trace `run NAME` before each case.
// Exit code: 0 all passed, 1 (of rank 0) a case failed, 70 the watchdog or a signal ended the job, 64 usage.
#define _GNU_SOURCE
#include "check.h"

#include <errno.h>
#include <execinfo.h>
#include <fnmatch.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <time.h>
#include <unistd.h>

#define GUARD_BYTES 64
#define GUARD_VALUE 0xA5
#define WHY_BYTES 600

const size_t check_sizes[] = {0,    1,     8,     40,    64,    192,   193,    256,     1024,       4096,
                              8192, 16383, 16384, 16385, 65535, 65536, 262144, 1048579, 5 * 1048576};
const int check_sizes_count = (int)(sizeof check_sizes / sizeof check_sizes[0]);

static struct CheckCase* all_cases;
static struct CheckScenario* all_scenarios;

struct Block {
  struct Block* next;
  unsigned char* memory;
  size_t len_bytes;
};

static struct {
  const char* name;  // the running case
  const char* file;  // the last check passed
  int line;
  int failures;
  char why[WHY_BYTES];
  const char* skipped;
  struct Block* blocks;
  pthread_mutex_t mutex;
} running = {.name = "(start-up)", .file = "?", .mutex = PTHREAD_MUTEX_INITIALIZER};

static struct {
  const char* filter;
  const char* skip;
  const char* after;
  const char* scenario;
  int effort;  // tenths
  unsigned timeout_s;
  uint64_t seed;
  bool list, trace, threads;
} options;

static int world_rank = -1, world_size, thread_provided;
static MPI_Comm control;

void check_register(struct CheckCase* entry) {
  // Sorted by name, so that all ranks and all builds agree on the order whatever the linker did.
  struct CheckCase** place = &all_cases;
  while (*place && strcmp((*place)->name, entry->name) < 0) place = &(*place)->next;
  entry->next = *place;
  *place = entry;
}

void check_register_scenario(struct CheckScenario* entry) {
  entry->next = all_scenarios;
  all_scenarios = entry;
}

void check_at(const char* file, int line) {
  const char* base = strrchr(file, '/');
  running.file = base ? base + 1 : file;
  running.line = line;
}

void check_fail(const char* file, int line, const char* format, ...) {
  const char* base = strrchr(file, '/');
  pthread_mutex_lock(&running.mutex);
  if (running.failures++ == 0) {
    int used = snprintf(running.why, WHY_BYTES, "rank %d, %s:%d: ", world_rank, base ? base + 1 : file, line);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(running.why + used, (size_t)(WHY_BYTES - used), format, arguments);
    va_end(arguments);
  }
  pthread_mutex_unlock(&running.mutex);
}

void check_skip(const char* reason) { running.skipped = reason; }
bool check_failed_here(void) { return running.failures > 0; }

bool check_ok(int code, const char* call, const char* file, int line) {
  if (code == MPI_SUCCESS) return true;
  char text[MPI_MAX_ERROR_STRING] = "?";
  int length;
  MPI_Error_string(code, text, &length);
  for (char* at = text; *at; ++at) {
    if (*at == '\n') *at = ' ';
  }
  check_fail(file, line, "%s failed: %s (%.300s)", call, check_class_name(check_class(code)), text);
  return false;
}

int check_class(int code) {
  int error_class = code;
  if (code != MPI_SUCCESS) MPI_Error_class(code, &error_class);
  return error_class;
}

void check_expect_class(int code, const char* call, int expected, const char* file, int line) {
  int actual = check_class(code);
  if (actual == expected) return;
  check_fail(file, line, "%s gives %s (%d), expected %s", call, check_class_name(actual), actual,
             check_class_name(expected));
}

const char* check_class_name(int error_class) {
#define NAME(c) \
  if (error_class == c) return #c;
  // clang-format off
  NAME(MPI_SUCCESS)
  NAME(MPI_ERR_BUFFER)
  NAME(MPI_ERR_COUNT)
  NAME(MPI_ERR_TYPE)
  NAME(MPI_ERR_TAG)
  NAME(MPI_ERR_COMM)
  NAME(MPI_ERR_RANK)
  NAME(MPI_ERR_REQUEST)
  NAME(MPI_ERR_ROOT)
  NAME(MPI_ERR_GROUP)
  NAME(MPI_ERR_OP)
  NAME(MPI_ERR_TOPOLOGY)
  NAME(MPI_ERR_DIMS)
  NAME(MPI_ERR_ARG)
  NAME(MPI_ERR_UNKNOWN)
  NAME(MPI_ERR_TRUNCATE)
  NAME(MPI_ERR_OTHER)
  NAME(MPI_ERR_INTERN)
  NAME(MPI_ERR_IN_STATUS)
  NAME(MPI_ERR_PENDING)
#undef NAME
  // clang-format on
  return "another class";
}

void* check_buffer(size_t len_bytes) {
  struct Block* block = malloc(sizeof *block);
  // An odd distance from malloc's alignment would hide alignment faults of the program, not of MPI: keep 64.
  block->memory = aligned_alloc(64, (2 * GUARD_BYTES + len_bytes + 63) / 64 * 64);
  block->len_bytes = len_bytes;
  memset(block->memory, GUARD_VALUE, GUARD_BYTES);
  memset(block->memory + GUARD_BYTES, UNTOUCHED, len_bytes);
  memset(block->memory + GUARD_BYTES + len_bytes, GUARD_VALUE, GUARD_BYTES);
  pthread_mutex_lock(&running.mutex);
  block->next = running.blocks;
  running.blocks = block;
  pthread_mutex_unlock(&running.mutex);
  return block->memory + GUARD_BYTES;
}

static void verify_guards(void) {
  for (const struct Block* block = running.blocks; block; block = block->next) {
    for (int side = 0; side < 2; ++side) {
      const unsigned char* guard = block->memory + (side ? GUARD_BYTES + block->len_bytes : 0);
      for (int i = 0; i < GUARD_BYTES; ++i) {
        if (guard[i] == GUARD_VALUE) continue;
        check_fail("guard", 0, "byte %d %s a buffer of %zu bytes was overwritten with 0x%02x", i,
                   side ? "behind" : "of the guard before", block->len_bytes, guard[i]);
        break;
      }
    }
  }
}

static void release_buffers(bool leak) {
  while (running.blocks) {
    struct Block* block = running.blocks;
    running.blocks = block->next;
    if (leak) continue;  // a failed case may have left an operation under way
    free(block->memory);
    free(block);
  }
}

static uint64_t mix(uint64_t x) {
  x += 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

uint64_t check_random(uint64_t* state) { return mix((*state)++); }

uint64_t check_key(int a, int b, int c, int d) {
  return mix(mix(mix(mix((uint64_t)a) + (uint64_t)b) + (uint64_t)c) + (uint64_t)d);
}

void check_fill(void* data, size_t len_bytes, uint64_t key) {
  unsigned char* at = data;
  for (size_t done = 0; done < len_bytes; done += 8) {
    uint64_t word = mix(key + done / 8);
    memcpy(at + done, &word, len_bytes - done < 8 ? len_bytes - done : 8);
  }
}

bool check_is(const void* data, size_t len_bytes, uint64_t key, const char* file, int line) {
  const unsigned char* at = data;
  for (size_t done = 0; done < len_bytes; done += 8) {
    uint64_t word = mix(key + done / 8);
    size_t piece = len_bytes - done < 8 ? len_bytes - done : 8;
    if (memcmp(at + done, &word, piece) == 0) continue;
    check_fail(file, line, "content differs near byte %zu of %zu (found 0x%02x)", done, len_bytes, at[done]);
    return false;
  }
  return true;
}

bool check_is_byte(const void* data, size_t len_bytes, unsigned char value, const char* file, int line) {
  const unsigned char* at = data;
  for (size_t i = 0; i < len_bytes; ++i) {
    if (at[i] == value) continue;
    check_fail(file, line, "byte %zu of %zu is 0x%02x, expected 0x%02x", i, len_bytes, at[i], value);
    return false;
  }
  return true;
}

MPI_Status check_blank_status(void) {
  MPI_Status status;
  memset(&status, 0x5B, sizeof status);  // odd: the bit for "cancelled" is set as well
  status.MPI_SOURCE = -7777;
  status.MPI_TAG = -7777;
  status.MPI_ERROR = -7777;
  return status;
}

void check_probed(const MPI_Status* status, int source, int tag, MPI_Datatype type, int count, const char* file,
                  int line) {
  int actual = -12345;
  check_at(file, line);
  if (status->MPI_SOURCE != source) check_fail(file, line, "MPI_SOURCE is %d, expected %d", status->MPI_SOURCE, source);
  if (status->MPI_TAG != tag) check_fail(file, line, "MPI_TAG is %d, expected %d", status->MPI_TAG, tag);
  check_ok(MPI_Get_count(status, type, &actual), "MPI_Get_count", file, line);
  if (actual != count) check_fail(file, line, "count is %d, expected %d", actual, count);
}

void check_status(const MPI_Status* status, int source, int tag, MPI_Datatype type, int count, const char* file,
                  int line) {
  int cancelled = -1;
  check_probed(status, source, tag, type, count, file, line);
  check_ok(MPI_Test_cancelled(status, &cancelled), "MPI_Test_cancelled", file, line);
  if (cancelled != 0) check_fail(file, line, "a completed operation says it was cancelled (%d)", cancelled);
}

void check_empty_status(const MPI_Status* status, const char* file, int line) {
  check_status(status, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_BYTE, 0, file, line);
}

int check_reps(int normal) {
  int scaled = normal * options.effort / 10;
  return scaled < 1 ? 1 : scaled;
}
int check_thread_level(void) { return thread_provided; }
uint64_t check_seed(void) { return options.seed; }
MPI_Comm check_control(void) { return control; }

void check_temp_path(char* path, size_t path_bytes) {
  static int files;
  const char* folder = getenv("TMPDIR");
  snprintf(path, path_bytes, "%s/zerohop-check-%ld-%d", folder ? folder : "/tmp", (long)getpid(), ++files);
}

double check_now_s(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

void check_stay_away_ms(int ms) {
  struct timespec left = {ms / 1000, (long)(ms % 1000) * 1000000};
  while (nanosleep(&left, &left) != 0 && errno == EINTR) continue;
}

// The handler prints with one write, so that lines of several ranks do not mingle, and leaves the job by _exit: the
// launcher sees a rank that ended without MPI_Finalize and ends the others.
static void on_signal(int number) {
  char line[WHY_BYTES + 200];
  const char* what = number == SIGALRM ? "hang" : strsignal(number);
  int length = snprintf(line, sizeof line, "FAIL %s: rank %d: %s, last seen at %s:%d%s%s\n", running.name, world_rank,
                        what, running.file, running.line, running.failures ? "; before that: " : "",
                        running.failures ? running.why : "");
  if (length > (int)sizeof line) length = (int)sizeof line;
  ssize_t ignored = write(STDOUT_FILENO, line, (size_t)length);
  void* frames[40];
  backtrace_symbols_fd(frames, backtrace(frames, 40), STDERR_FILENO);
  if (number == SIGALRM) {
    // Let the other ranks tell where they hang before the launcher ends them.
    struct timespec moment = {0, 300000000};
    nanosleep(&moment, NULL);
  }
  (void)ignored;
  _exit(70);
}

static bool matches(const char* name, const char* globs) {
  if (!globs) return false;
  char* copy = strdup(globs);  // of any length: the cases to leave out are named one by one
  char* rest = copy;
  bool found = false;
  for (char* glob = strsep(&rest, ","); glob && !found; glob = strsep(&rest, ",")) {
    found = fnmatch(glob, name, 0) == 0;
  }
  free(copy);
  return found;
}

static bool selected(const struct CheckCase* entry) {
  if (options.after && strcmp(entry->name, options.after) <= 0) return false;
  if (options.filter && !matches(entry->name, options.filter)) return false;
  return !matches(entry->name, options.skip);
}

static MPI_Comm make_comm(void) {
  MPI_Comm comm;
  MPI_Comm_dup(control, &comm);
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  return comm;
}

// Runs one case and returns whether it failed on any rank.
static bool run_case(const struct CheckCase* entry, MPI_Comm comm) {
  running.name = entry->name;
  running.failures = 0;
  running.skipped = NULL;
  running.file = "(begin)";
  running.line = 0;
  if (options.trace && world_rank == 0) printf("run %s\n", entry->name);
  fflush(stdout);
  alarm(options.timeout_s);
  entry->function(comm, world_rank, world_size, (world_rank + world_size - 1) % world_size,
                  (world_rank + 1) % world_size);
  verify_guards();

  running.file = "(end of case)";
  int mine = running.failures ? world_rank : world_size, first = 0;
  MPI_Allreduce(&mine, &first, 1, MPI_INT, MPI_MIN, control);
  if (first == world_size) {
    // Everybody is through: what is still in the mailbox was sent and received by nobody, or delivered twice.
    int stray = 0;
    MPI_Status status;
    MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &stray, &status);
    if (stray) {
      check_fail("(end of case)", 0, "a stray message from %d with tag %d is left over", status.MPI_SOURCE,
                 status.MPI_TAG);
    }
    mine = running.failures ? world_rank : world_size;
    MPI_Allreduce(&mine, &first, 1, MPI_INT, MPI_MIN, control);
  }
  bool failed = first != world_size;
  if (failed) {
    char why[WHY_BYTES];
    memcpy(why, running.why, WHY_BYTES);
    MPI_Bcast(why, WHY_BYTES, MPI_CHAR, first, control);
    if (world_rank == 0) printf("FAIL %s: %s\n", entry->name, why);
  } else if (world_rank == 0) {
    if (running.skipped) {
      printf("skip %s: %s\n", entry->name, running.skipped);
    } else {
      printf("ok %s\n", entry->name);
    }
  }
  fflush(stdout);
  release_buffers(failed);
  alarm(0);
  return failed;
}

static int usage(const char* text) {
  fprintf(stderr, "mpi_semantics: %s\n", text);
  return 64;
}

static int parse(int argc, char** argv) {
  const char *seed = "1", *timeout_s = "60", *effort = "normal", *thread = "single";
  const struct {
    const char *flag, **value;
  } valued[] = {{"--filter", &options.filter},
                {"--skip", &options.skip},
                {"--after", &options.after},
                {"--scenario", &options.scenario},
                {"--seed", &seed},
                {"--timeout", &timeout_s},
                {"--effort", &effort},
                {"--thread", &thread}};
  const int count = (int)(sizeof valued / sizeof valued[0]);
  for (int i = 1; i < argc; ++i) {
    bool list = strcmp(argv[i], "--list") == 0, trace = strcmp(argv[i], "--trace") == 0;
    options.list |= list;
    options.trace |= trace;
    if (list || trace) continue;
    int k = 0;
    while (k < count && strcmp(argv[i], valued[k].flag) != 0) ++k;
    if (k == count || i + 1 == argc) return usage("an option is unknown or lacks its value");
    *valued[k].value = argv[++i];
  }
  options.seed = strtoull(seed, NULL, 0);
  options.timeout_s = (unsigned)atoi(timeout_s);
  options.effort = strcmp(effort, "low") == 0 ? 1 : strcmp(effort, "high") == 0 ? 100 : 10;
  options.threads = strcmp(thread, "multiple") == 0;
  return 0;
}

static int run_scenario(void) {
  for (const struct CheckScenario* entry = all_scenarios; entry; entry = entry->next) {
    if (strcmp(entry->name, options.scenario) != 0) continue;
    running.name = entry->name;
    alarm(options.timeout_s);
    return entry->function(world_rank, world_size);
  }
  return usage("no such scenario");
}

int main(int argc, char** argv) {
  int bad = parse(argc, argv);
  if (bad) return bad;
  if (options.list) {
    for (const struct CheckCase* entry = all_cases; entry; entry = entry->next) {
      if (selected(entry)) printf("%s\n", entry->name);
    }
    return 0;
  }
  signal(SIGALRM, on_signal);
  alarm(options.timeout_s);
  if (options.scenario && (strstr(options.scenario, "without_init") || strstr(options.scenario, "exit_handler"))) {
    return run_scenario();  // initializes by itself, if at all
  }
  if (options.threads) {
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &thread_provided);
  } else {
    MPI_Init(&argc, &argv);
    MPI_Query_thread(&thread_provided);
  }
  void* frame;
  (void)backtrace(&frame, 1);  // which takes memory the first time, and the handler may interrupt malloc
  signal(SIGSEGV, on_signal);
  signal(SIGBUS, on_signal);
  signal(SIGABRT, on_signal);
  signal(SIGFPE, on_signal);
  MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
  MPI_Comm_size(MPI_COMM_WORLD, &world_size);
  if (options.scenario) return run_scenario();

  // Hosts differ in whose handler hears of an error that names no communicator (Waitall, Mrecv): both return. That the
  // communicator's own one is called where a call names it is the subject of errors.c.
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  MPI_Comm_dup(MPI_COMM_WORLD, &control);
  if (world_rank == 0) printf("seed %llu\n", (unsigned long long)options.seed);
  MPI_Comm comm = make_comm();
  int failed = 0, ran = 0;
  for (const struct CheckCase* entry = all_cases; entry; entry = entry->next) {
    if (!selected(entry)) continue;
    ++ran;
    if (run_case(entry, comm)) {
      ++failed;
      comm = make_comm();  // the failed case may have left messages in the old one
    }
  }
  MPI_Comm_free(&comm);
  MPI_Comm_free(&control);
  running.name = "(finalize)";
  alarm(options.timeout_s);
  // Said before MPI_Finalize: a launcher may cut off the others' output when one rank's exit code is not zero.
  if (world_rank == 0) printf("%d cases, %d failed\n", ran, failed);
  fflush(stdout);
  MPI_Finalize();
  if (ran == 0) return usage("no case matches");
  return failed && world_rank == 0 ? 1 : 0;
}
