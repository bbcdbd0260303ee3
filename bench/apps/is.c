// IS, the integer sort of the NAS benchmarks: ten times the keys' ranks, by a bucket sort whose buckets travel by one
// MPI_Alltoallv. Verified by five keys' ranks in each turn and by the order of all keys at the end.
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "apps.h"

enum { kTests = 5, kTurns = 10, kMostBuckets = 1 << 10 };

typedef struct {
  char name;
  int keys_log2, largest_log2, buckets_log2;
  int index[kTests], rank[kTests];  // of the keys that are looked at, in the whole array
  int rising;                       // bits: whose rank rises with the turns, as two keys change
  int rising_from, falling_from;    // turns by which the rank lags
} Class;

static const Class kClasses[] = {
    {'S', 16, 11, 9, {48427, 17148, 23627, 62548, 4431}, {0, 18, 346, 64917, 65463}, 7, 0, 0},
    {'W', 20, 16, 10, {357773, 934767, 875723, 898999, 404505}, {1249, 11698, 1039987, 1043896, 1048018}, 3, 2, 0},
    {'A', 23, 19, 10, {2112377, 662041, 5336171, 3642833, 4250760}, {104, 17523, 123928, 8288932, 8388264}, 7, 1, 1},
    {'B', 25, 21, 10, {41869, 812306, 5102857, 18232239, 26860214}, {33422937, 10244, 59149, 33135281, 99}, 22, 0, 0},
};

static const Class* c = NULL;
static int keys = 0;           // of a rank
static int* key = NULL;        // as generated
static int* by_bucket = NULL;  // the same, in the order of their buckets
static int* own = NULL;        // those of the own buckets, from all ranks
static int own_room = 0, own_keys = 0;
static int* below = NULL;        // below[k - least]: own keys that are not above k
static int least = 0, most = 0;  // keys that are this rank's, as far as there are any
static int lesser = 0;           // keys on the ranks before
static int *send_count, *send_at, *recv_count, *recv_at, *last_bucket;

static void generate(void) {
  uint64_t state = random_at(4 * (uint64_t)keys * (uint64_t)g_rank);
  const double quarter = (double)(1 << c->largest_log2) / 4;
  for (int i = 0; i < keys; i++) {
    double sum = random_next(&state);
    for (int k = 1; k < 4; k++) sum += random_next(&state);
    key[i] = (int)(quarter * sum);
  }
}

// Which buckets each rank takes: as many as make an equal share of the keys.
static void deal_buckets(const int* size, const int* total) {
  int64_t all = 0;
  int mine = 0, rank = 0;
  for (int r = 0; r < g_ranks; r++) send_count[r] = 0, last_bucket[r] = (1 << c->buckets_log2) - 1;
  for (int b = 0; b < 1 << c->buckets_log2; b++) {
    all += total[b];
    mine += size[b];
    if (all < (int64_t)keys * (rank + 1)) continue;
    send_count[rank] = mine;
    last_bucket[rank++] = b;
    mine = 0;
  }
  for (int r = 1; r < g_ranks; r++) send_at[r] = send_at[r - 1] + send_count[r - 1];
}

static void send_keys(void) {
  IN_MPI(MPI_Alltoall(send_count, 1, MPI_INT, recv_count, 1, MPI_INT, MPI_COMM_WORLD));
  for (int r = 1; r < g_ranks; r++) recv_at[r] = recv_at[r - 1] + recv_count[r - 1];
  own_keys = recv_at[g_ranks - 1] + recv_count[g_ranks - 1];
  if (own_keys > own_room) {
    free(own);
    own_room = own_keys + keys / 8;
    own = new_array((size_t)own_room, sizeof *own);
  }
  IN_MPI(MPI_Alltoallv(by_bucket, send_count, send_at, MPI_INT, own, recv_count, recv_at, MPI_INT, MPI_COMM_WORLD));
}

// How many of the tests are of own keys and right.
static int right_tests(const int* looked_at, int turn) {
  int right = 0;
  for (int t = 0; t < kTests; t++) {
    const int k = looked_at[t];
    if (k < least || k > most) continue;
    const int rank = lesser + (k > least ? below[k - 1 - least] : 0);
    const int rising = c->rising >> t & 1;
    right += rank == c->rank[t] + (rising ? turn - c->rising_from : c->falling_from - turn);
  }
  return right;
}

// One turn; returns the right tests. The keys looked at follow the buckets, as in the reference: one message less.
static int rank_keys(int turn) {
  static int size[kMostBuckets + kTests], total[kMostBuckets + kTests], at[kMostBuckets];
  const int buckets = 1 << c->buckets_log2, shift = c->largest_log2 - c->buckets_log2;
  if (g_rank == 0) key[turn] = turn, key[turn + kTurns] = (1 << c->largest_log2) - turn;
  memset(size, 0, sizeof size);
  for (int t = 0; t < kTests; t++) {
    if (c->index[t] / keys == g_rank) size[buckets + t] = key[c->index[t] % keys];
  }
  for (int i = 0; i < keys; i++) size[key[i] >> shift]++;
  at[0] = 0;
  for (int b = 1; b < buckets; b++) at[b] = at[b - 1] + size[b - 1];
  for (int i = 0; i < keys; i++) by_bucket[at[key[i] >> shift]++] = key[i];
  IN_MPI(MPI_Allreduce(size, total, buckets + kTests, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
  deal_buckets(size, total);
  send_keys();
  const int first = g_rank == 0 ? 0 : last_bucket[g_rank - 1] + 1;
  least = first << shift;
  most = ((last_bucket[g_rank] + 1) << shift) - 1;
  lesser = 0;
  for (int b = 0; b < first; b++) lesser += total[b];
  for (int k = 0; k <= most - least; k++) below[k] = 0;
  for (int i = 0; i < own_keys; i++) below[own[i] - least]++;
  for (int k = 1; k <= most - least; k++) below[k] += below[k - 1];
  return right_tests(total + buckets, turn);
}

// Puts every key in its place and looks at the order, also between the ranks.
static int wrong_order(double* sum) {
  int* sorted = new_array((size_t)own_keys, sizeof *sorted);
  for (int i = 0; i < own_keys; i++) sorted[--below[own[i] - least]] = own[i];
  int wrong = 0, before = -1, greatest = own_keys > 0 ? sorted[own_keys - 1] : -1;
  for (int i = 1; i < own_keys; i++) wrong += sorted[i - 1] > sorted[i];
  MPI_Exscan(&greatest, &before, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  if (g_rank > 0 && own_keys > 0) wrong += before > sorted[0];
  double mine = 0, all[2], local[2] = {0, own_keys};
  for (int i = 0; i < own_keys; i++) mine += sorted[i] * (double)((lesser + i) % 1021);  // whole, and below 2^53
  local[0] = mine;
  MPI_Allreduce(local, all, 2, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  *sum = all[0];
  free(sorted);
  return wrong + (all[1] != (double)keys * g_ranks);
}

static Outcome run(char class_name) {
  for (size_t i = 0; i < sizeof kClasses / sizeof *kClasses; i++) {
    if (kClasses[i].name == class_name) c = &kClasses[i];
  }
  if (log2_of(g_ranks) > c->buckets_log2 - 1) refuse("is: more ranks than half its buckets");
  keys = (1 << c->keys_log2) / g_ranks;
  own_room = keys + keys / 2;
  key = new_array((size_t)keys, sizeof *key);
  by_bucket = new_array((size_t)keys, sizeof *by_bucket);
  own = new_array((size_t)own_room, sizeof *own);
  below = new_array((size_t)1 << c->largest_log2, sizeof *below);
  int** const per_rank[] = {&send_count, &send_at, &recv_count, &recv_at, &last_bucket};
  for (size_t i = 0; i < sizeof per_rank / sizeof *per_rank; i++)
    *per_rank[i] = new_array((size_t)g_ranks, sizeof(int));
  generate();
  rank_keys(1);
  int right = 0;
  timed_begin();
  for (int turn = 1; turn <= kTurns; turn++) right += rank_keys(turn);
  timed_end();
  MPI_Allreduce(MPI_IN_PLACE, &right, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  Outcome out = {right != kTests * kTurns, 1, {0, 0}};
  out.errors += wrong_order(&out.value[0]);
  return out;
}

const App g_is = {"is", "NAS IS: sorts integers (Alltoallv)", run};
