// Loops bounded in time and memory of every kind, for the tests of collectives. Each buffer has an image of what it has
// to hold, guards and gaps included, so that one comparison finds a byte too few or too many.
#include "coll.h"

#include <sys/mman.h>

enum { kGuardBytes = 128, kStaticBytes = 300000, kKinds = 8 };
enum { kHeap, kPages, kStack, kStaticZero, kStaticData, kMpiMemory, kMapped, kUnaligned };
static const char* const kNames[kKinds] = {"heap", "pages", "stack", ".bss", ".data", "MPI_Alloc_mem", "mmap", "odd"};

static unsigned char zero_array[kStaticBytes];
static unsigned char data_array[kStaticBytes] = {1};
static bool zero_used, data_used;
static unsigned char* lent;
static size_t lent_bytes;

// ---- loops

struct CollLoop coll_loop(uint64_t key, int least, int most) {
  int rank;
  MPI_Comm_rank(check_control(), &rank);
  struct CollLoop loop = {.least = least, .most = most, .begin_s = check_now_s()};
  loop.shared = check_key((int)check_seed(), (int)key, (int)(key >> 32), 1);
  loop.own = check_key((int)check_seed(), (int)key, (int)(key >> 32), 1000 + rank);
  loop.limit_s = 0.03 * check_reps(10);
  return loop;
}

bool coll_next(struct CollLoop* loop) {
  if (loop->item == loop->granted) {
    double passed_s = check_now_s() - loop->begin_s, each_s = loop->item ? passed_s / loop->item : 0.05;
    int more = 1;
    if (loop->item >= loop->least && passed_s > loop->limit_s) {
      more = 0;
    } else if (each_s < 0.05) {
      more = (int)(0.05 / (each_s + 1e-5)) + 1;
    }
    if (more > loop->item + 1) more = loop->item + 1;  // the first items may have been small ones
    if (more > 64) more = 64;
    if (more > loop->most - loop->item) more = loop->most - loop->item;
    OK(MPI_Bcast(&more, 1, MPI_INT, 0, coll_host()));  // rank 0's clock decides for all
    loop->granted += more;
    if (more == 0) return false;
  }
  ++loop->item;
  return true;
}

int coll_pick(uint64_t* state, int n) { return (int)(check_random(state) % (uint64_t)n); }
bool coll_chance(uint64_t* state, int percent) { return coll_pick(state, 100) < percent; }
void coll_shuffle(int* list, int count, uint64_t* state) {
  for (int i = count - 1; i > 0; --i) {
    int j = coll_pick(state, i + 1), swap = list[i];
    list[i] = list[j];
    list[j] = swap;
  }
}

MPI_Comm coll_host(void) {
  static MPI_Comm host = MPI_COMM_NULL;
  if (host == MPI_COMM_NULL) {
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, "zerohop", "off");
    MPI_Comm_dup_with_info(check_control(), info, &host);
    MPI_Info_free(&info);
    MPI_Comm_set_errhandler(host, MPI_ERRORS_RETURN);
  }
  return host;
}

bool coll_named(const char* collective, const char* algorithm) {
  const char* all = getenv("ZEROHOP_ALGORITHM");
  char part[80];
  snprintf(part, sizeof part, ",%s:%s", collective, algorithm != NULL ? algorithm : "");
  char* text = malloc((all != NULL ? strlen(all) : 0) + 3);
  sprintf(text, ",%s,", all != NULL ? all : "");
  const char* at = strstr(text, part);
  const bool found = at != NULL && (algorithm == NULL || at[strlen(part)] == ',');
  free(text);
  return found;
}

bool coll_one_node(void) {
  static int ranks_here = 0;
  int ranks;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (ranks_here == 0) {
    MPI_Comm here;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &here);
    MPI_Comm_size(here, &ranks_here);
    MPI_Comm_free(&here);
  }
  return ranks_here == ranks && coll_node_ranks() == 0;
}

int coll_node_ranks(void) {
  static const char kName[] = "node_ranks=";
  const char* config = getenv("ZEROHOP_CONFIG");
  const char* at = config != NULL ? strstr(config, kName) : NULL;
  return at != NULL ? atoi(at + strlen(kName)) : 0;
}

bool coll_served(void) {
  const char *preloads = getenv("LD_PRELOAD"), *on = getenv("ZEROHOP_COLLECTIVES"), *all = getenv("ZEROHOP_ENABLE");
  if ((on != NULL && strcmp(on, "0") == 0) || (all != NULL && strcmp(all, "0") == 0)) return false;
  return preloads != NULL && strstr(preloads, "zerohop") != NULL;
}

uint64_t coll_hash(const void* data, size_t len_bytes) {
  const unsigned char* at = data;
  uint64_t hash = 1469598103934665603u;
  for (size_t i = 0; i < len_bytes; ++i) hash = (hash ^ at[i]) * 1099511628211u;
  return hash;
}

void coll_expect_same(uint64_t value, const char* what) {
  uint64_t mine[2] = {value, ~value}, least[2] = {0, 0};
  OK(MPI_Allreduce(mine, least, 2, MPI_UINT64_T, MPI_MIN, coll_host()));
  EXPECT(least[0] == ~least[1], "%s: not the same on all ranks", what);
}

void coll_expect_works(MPI_Comm comm, int key) {
  int rank, size, sum = -1;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  OK(MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, comm));
  EXPECT_EQ(sum, size * (size - 1) / 2);
  int root = size - 1 - key % size, item = rank == root ? key : -1;
  OK(MPI_Bcast(&item, 1, MPI_INT, root, comm));
  EXPECT_EQ(item, key);
}

// ---- memory

void coll_lend_stack(unsigned char* stack, size_t len_bytes) {
  lent = stack;
  lent_bytes = stack ? len_bytes : 0;
}

static unsigned char* obtain(struct CollBuffer* buffer, size_t len_bytes, uint64_t* state) {
  buffer->kind = coll_pick(state, kKinds);
  buffer->memory = NULL;
  unsigned char* memory = NULL;
  switch (buffer->kind) {
    case kPages:
      memory = buffer->memory = aligned_alloc(4096, (len_bytes + 4095) / 4096 * 4096);
      break;
    case kStack:
      if (len_bytes + 64 <= lent_bytes) {
        memory = lent + (64 - (uintptr_t)lent % 64) % 64;
        lent_bytes -= (size_t)(memory - lent) + len_bytes;
        lent = memory + len_bytes;
      }
      break;
    case kStaticZero:
      if (!zero_used && len_bytes <= kStaticBytes) {
        memory = zero_array;
        zero_used = true;
      }
      break;
    case kStaticData:
      if (!data_used && len_bytes <= kStaticBytes) {
        memory = data_array;
        data_used = true;
      }
      break;
    case kMpiMemory:
      OK(MPI_Alloc_mem((MPI_Aint)len_bytes, MPI_INFO_NULL, &buffer->memory));
      memory = buffer->memory;
      break;
    case kMapped:
      buffer->memory = mmap(NULL, len_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      memory = buffer->memory;
      break;
    case kUnaligned:
      buffer->memory = malloc(len_bytes + 64);
      memory = (unsigned char*)buffer->memory + 1 + coll_pick(state, 60);
      break;
    default:
      break;
  }
  if (!memory) {
    buffer->kind = kHeap;
    memory = buffer->memory = malloc(len_bytes);
  }
  return memory;
}

void coll_make(struct CollBuffer* buffer, MPI_Aint low, MPI_Aint high, uint64_t* state) {
  // Eight bytes aligned, so that only memory of the kind "odd" gives unaligned elements.
  MPI_Aint before = low < 0 ? (-low + 63) / 64 * 64 : 0;
  if (high < 0) high = 0;
  buffer->len_bytes = (size_t)(before + high) + 2 * kGuardBytes;
  buffer->area = obtain(buffer, buffer->len_bytes, state);
  buffer->image = malloc(buffer->len_bytes);
  memset(buffer->area, UNTOUCHED, buffer->len_bytes);
  memset(buffer->image, UNTOUCHED, buffer->len_bytes);
  buffer->base = buffer->area + kGuardBytes + before;
}

unsigned char* coll_image(const struct CollBuffer* buffer, MPI_Aint at) {
  return buffer->image + (buffer->base - buffer->area) + at;
}

void coll_accept(struct CollBuffer* buffer, MPI_Aint at, size_t len_bytes) {
  memcpy(coll_image(buffer, at), buffer->base + at, len_bytes);
}

bool coll_verify(const struct CollBuffer* buffer, const char* what) {
  check_at(__FILE__, __LINE__);
  if (!buffer->image || memcmp(buffer->area, buffer->image, buffer->len_bytes) == 0) return true;
  size_t first = 0, wrong = 0;
  for (size_t i = buffer->len_bytes; i-- > 0;) {
    if (buffer->area[i] == buffer->image[i]) continue;
    first = i;
    ++wrong;
  }
  check_fail(__FILE__, __LINE__, "%s: %zu of %zu bytes are wrong in %s memory, the first at %td is 0x%02x, not 0x%02x",
             what, wrong, buffer->len_bytes - 2 * kGuardBytes, kNames[buffer->kind],
             (buffer->area + first) - buffer->base, buffer->area[first], buffer->image[first]);
  return false;
}

void coll_free(struct CollBuffer* buffer) {
  switch (buffer->kind) {
    case kMpiMemory:
      OK(MPI_Free_mem(buffer->memory));
      break;
    case kMapped:
      munmap(buffer->memory, buffer->len_bytes);
      break;
    case kStaticZero:
      zero_used = false;
      break;
    case kStaticData:
      data_used = false;
      break;
    default:
      free(buffer->memory);
  }
  free(buffer->image);
  buffer->memory = buffer->image = buffer->area = NULL;
}

const char* coll_kind(const struct CollBuffer* buffer) { return kNames[buffer->kind]; }
