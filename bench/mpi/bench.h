// What the MPI benchmark programs share: the settings of one launch, the measuring harness, the page through which the
// ranks agree without any message, and the rewriting of data. Seen by bench/mpi/*.c only. It knows MPI and nothing of
// zerohop except the info key `zerohop` = `off`, which every other MPI library ignores.
#ifndef ZEROHOP_BENCH_MPI_BENCH_H_
#define ZEROHOP_BENCH_MPI_BENCH_H_

#include <mpi.h>
#include <stddef.h>
#include <stdint.h>

enum {
  kMaxArms = 4,
  kMaxMetrics = 8,
  kMaxBlocks = 64,
  kMaxIters = 20000,
  kMaxRanks = 4096,
  kMaxSizes = 32,
  kWindow = 64,
};

// Where ranks run that outnumber the processors: where the kernel wants, neighbours on one processor, or in turn.
typedef enum { kFree, kBlock, kCyclic } Placement;

// One launch's settings, equal on all ranks.
typedef struct {
  const char* label;         // free text for the result, for example the host's name
  const char* out_path;      // the JSON document; NULL: standard output
  const char* only;          // comma list of sub-benchmarks; NULL: those that fit the number of ranks
  const char* buffers;       // comma list of malloc, alloc_mem
  const char* memory_match;  // mappings whose path holds this text count as the library's memory
  size_t sizes[kMaxSizes];   // in the program's unit; none: each sub-benchmark's own list
  int size_count;
  int blocks;       // blocks of each arm per case
  double block_us;  // aimed length of one block
  double case_s;    // no further block of a case that has taken this long; 0: no limit
  int arm_count;
  const char* arm_name[kMaxArms];
  MPI_Comm arm_comm[kMaxArms];
  int pin;                 // 1: ranks pin themselves to distinct processors where there are enough
  Placement placement;     // ... and where there are not
  const char* processors;  // "2,5": those alone, as if the machine had no others; NULL: all that the job may use
  int no_page;             // even where one machine's ranks could share it
  int quick;               // fewer sizes and depths
  int rotate_root;         // collectives: the root moves on by one rank with every call
  const char* forms;       // ... comma list of blocking, nonblocking, persistent
} Settings;

// One benchmark program: what launch.c does not know. Defined once in each program.
typedef struct {
  const char* name;
  const char* schema;        // of the document
  const char* about;         // one line of help
  const char* options;       // help for the options that mean something to this program only
  const char* sizes;         // help of --sizes: what a size is
  int tiny_sizes;            // some sub-benchmarks take 0, 1, 2 and 4
  size_t size_step;          // sizes are multiples of it ...
  size_t size_most;          // ... and not larger than this
  int by_page;               // needs the page that ranks of one machine share ...
  const char* without_page;  // ... but for this sub-benchmark alone
  void (*run)(void);         // every sub-benchmark that is selected
} Program;
extern const Program g_program;

typedef struct Case Case;

// One measured configuration of one sub-benchmark. A block fills one value per metric on rank 0 and returns the seconds
// that its measured loop took (set-up excluded), from which the harness chooses the number of iterations.
struct Case {
  const char* bench;
  size_t size_bytes;
  const char* buffers;     // "malloc" or "alloc_mem"
  const char* param_name;  // second parameter ("depth", "c2_us" ...); NULL: none
  double param;
  const char* variant;  // free word ("reuse", "posted" ...); NULL: none
  int window;
  int min_iters;
  int max_iters;
  int metric_count;
  const char* metric_name[kMaxMetrics];
  double (*block)(const Case* c, MPI_Comm comm, int warm, int iters, double* out);
};

extern Settings g_settings;
// A duplicate of `from` for one arm: the host's alone, or left to whoever serves it.
MPI_Comm communicator_of(const char* arm, MPI_Comm from);
// The communicator of the arm that is being measured: what a rank turns while it waits outside MPI.
extern MPI_Comm g_progress_comm;
extern int g_rank;
extern int g_ranks;

// --- time (data.c)
// --------------------------------------------------------------------------------------------------------- Ticks of a
// clock that all processors share (the invariant TSC, the ARM counter, else CLOCK_MONOTONIC).
void clock_setup(void);
uint64_t ticks(void);
double ticks_to_us(double ticks_count);
const char* clock_name(void);
// Ticks after all earlier stores have left this processor's store buffer: the end of the rewriting.
uint64_t ticks_after_stores(void);
// Uses the processor for this long without touching memory.
void compute_us(double us);

// --- data (data.c)
// ---------------------------------------------------------------------------------------------------------
void* buffer_get(const char* kind, size_t len_bytes);
void buffer_put(const char* kind, void* p);
// Changes every cache line: the first word of each becomes seq + offset, the last word of the message ~seq.
void rewrite(void* p, size_t len_bytes, uint64_t seq);
// Puts the time into the first word, after the rewriting has ended.
void stamp(void* p);
uint64_t stamp_of(const void* p);
// Reads first and last word of a stamped message, or every line (`full`); counts what is wrong in g_errors.
void verify(const void* p, size_t len_bytes, uint64_t seq, int full);
// Share (0..1) of the lines of an unstamped message that already hold `seq`.
double arrived_share(const void* p, size_t len_bytes, uint64_t seq);
extern uint64_t g_errors;
// A sequence number never used before by this rank pair; both ranks step alike.
uint64_t next_seq(void);
double median(double* values, int count);
uint64_t hash_text(const char* text);

// --- agreement (shared.c)
// --------------------------------------------------------------------------------- Without messages, by one page that
// all ranks under one kernel share, or, under several, by `comm`, which is the host's alone and stays the caller's.
// Returns 0, or -1 with a line on stderr.
int shared_attach(MPI_Comm comm);
void shared_detach(void);
int shares_page(void);
// Whether under some kernel there are more ranks than processors for them.
int crowded(void);
// Namespaces with a network of their own count as machines.
int machine_count(void);
int machine_of_rank(int rank);
int is_first_of_machine(void);
void coord_barrier(void);
// All ranks give n values (n <= 16); after it rank 0 may read rank r's k-th value by gathered(r, k) until the next
// gather.
void coord_gather(const double* values, int n);
double gathered(int rank, int k);
// Rank 0's value, on every rank.
double coord_bcast(double value);
// Meets one other rank; `slot` is a number that only this pair uses (0..kMaxRanks-1), `side` 0 or 1.
void pair_sync(int slot, int side);
// The sum of all ranks' values, by nothing but a store into the own line and a look at everybody's: what a flat
// collective without MPI costs. Ranks that wait yield their processor when there are too few.
double flat_allreduce(double value);
// One-way time of one cache line between ranks 0 and 1, in microseconds (others sleep); the same on all ranks.
double line_time_us(void);
// Pins to the index-th allowed processor when the launcher's variables show that every rank can have its own. Before
// MPI_Init.
void pin_before_init(void);
void pin_after_init(void);
int pinned_cpu(void);  // -1: not pinned
int cpu_count(void);
// A rank's time for one call, of the times of all its calls; they are sorted by it.
double typical_us(double* times_us, int count);

// --- network (network.c)
// ---------------------------------------------------------------------------------------------------
// Names the network that this process sees; 0 where the system does not say.
uint64_t network_id(void);
// What went out of this machine so far, without loopback.
void network_sent(double* bytes, double* packets);

// --- harness (harness.c)
// ---------------------------------------------------------------------------------------------------
void results_open(void);
void results_close(double line_before_us, double line_after_us, const int* cpus);
void run_case(Case* c);
int in_list(const char* list, const char* word);  // comma list
int selected(const char* bench);
// The sizes of a sub-benchmark: those of the command line, else its own list; none below `least`.
int sizes_for(const size_t* own, int own_count, size_t least, size_t* out);
int each_buffers(const char* kinds[3]);

// --- sub-benchmarks
// --------------------------------------------------------------------------------------------------------
void bench_pingpong(void);       // latency, reuse, queues
void bench_first(void);          // first
void bench_stream(void);         // bandwidth, bidirectional, rate, multipair
void bench_progress(void);       // overlap, skew, breakdown
void bench_strided(void);        // strided
void bench_prtt(void);           // prtt, with strided
void bench_strided_bcast(void);  // linear_bcast, binomial_bcast
void bench_many(void);           // pairs, exchange, alltoall_once, memory

#endif  // ZEROHOP_BENCH_MPI_BENCH_H_
