// Inside calls on windows that wait for other ranks.
#include "away.h"

static MPI_Win window;
static int cells[64];

#define AWAY_MADE_WINDOW(name, call) \
  AWAY(name) {                       \
    void* memory = NULL;             \
    (void)memory;                    \
    MPI_Win made;                    \
    OK(call);                        \
    OK(MPI_Win_free(&made));         \
  }
AWAY_MADE_WINDOW(win_create, MPI_Win_create(cells, sizeof cells, sizeof(int), MPI_INFO_NULL, comm, &made))
AWAY_MADE_WINDOW(win_allocate, MPI_Win_allocate(4096, 1, MPI_INFO_NULL, comm, &memory, &made))
AWAY_MADE_WINDOW(win_create_dynamic, MPI_Win_create_dynamic(MPI_INFO_NULL, comm, &made))
AWAY(win_allocate_shared) {
  MPI_Comm here;
  void* memory;
  MPI_Win made;
  OK(MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &here));
  OK(MPI_Win_allocate_shared(4096, 1, MPI_INFO_NULL, here, &memory, &made));
  OK(MPI_Win_free(&made));
  OK(MPI_Comm_free(&here));
}

#define MAKE_WINDOW OK(MPI_Win_create(cells, sizeof cells, sizeof(int), MPI_INFO_NULL, comm, &window))
#define AWAY_WINDOW(name) AWAY_WITHIN(name, kAwayKinds, MAKE_WINDOW, OK(MPI_Win_free(&window)))
AWAY_WINDOW(fence) {
  OK(MPI_Win_fence(0, window));
  OK(MPI_Put(&rank, 1, MPI_INT, (rank + 1) % size, 0, 1, MPI_INT, window));
  OK(MPI_Win_fence(0, window));
  EXPECT_EQ(cells[0], (rank + size - 1) % size);
}
AWAY_WINDOW(win_set_info) {
  MPI_Info info;
  OK(MPI_Info_create(&info));
  OK(MPI_Win_set_info(window, info));
  OK(MPI_Info_free(&info));
}
static void group_of(MPI_Comm comm, int rank, MPI_Group* out) {
  MPI_Group all;
  OK(MPI_Comm_group(comm, &all));
  OK(MPI_Group_incl(all, 1, &rank, out));
  OK(MPI_Group_free(&all));
}
// One of a pair writes to the other: in MPI_Win_start and _complete.
static void pair_epoch(MPI_Comm comm, int rank, int size, bool even_writes) {
  int peer = rank ^ 1;
  if (peer >= size) return;
  MPI_Group group;
  group_of(comm, peer, &group);
  if ((rank % 2 == 0) == even_writes) {
    OK(MPI_Win_start(group, 0, window));
    OK(MPI_Put(&rank, 1, MPI_INT, peer, 1, 1, MPI_INT, window));
    OK(MPI_Win_complete(window));
  } else {
    OK(MPI_Win_post(group, 0, window));
    OK(MPI_Win_wait(window));
    EXPECT_EQ(cells[1], peer);
  }
  OK(MPI_Group_free(&group));
}
AWAY_WINDOW(start_complete) { pair_epoch(comm, rank, size, true); }
AWAY_WINDOW(post_wait) { pair_epoch(comm, rank, size, false); }

// The odd rank holds the lock of its window while it sends; the even one waits for that lock.
enum How { kUnlock, kFlush, kFlushLocal, kLockAll };
static void locked(MPI_Comm comm, int rank, int size, enum How how, int k) {
  int peer = rank ^ 1;
  bool paired = peer < size;
  unsigned char* data = check_buffer((size_t)away_kinds[k].count * (size_t)away_kinds[k].bytes);
  MPI_Request requests[kAwayMany];
  if (rank % 2 != 0) OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, window));
  if (rank % 2 == 0 && paired) away_post(comm, peer, k, data, requests);
  OK(MPI_Barrier(comm));
  if (rank % 2 != 0) {
    away_send(comm, rank, k, data);
    OK(MPI_Win_unlock(rank, window));
  } else if (paired) {
    int in = -1;
    OK(how == kLockAll ? MPI_Win_lock_all(0, window) : MPI_Win_lock(MPI_LOCK_EXCLUSIVE, peer, 0, window));
    OK(MPI_Get(&in, 1, MPI_INT, peer, 2, 1, MPI_INT, window));
    if (how == kFlush) OK(MPI_Win_flush(peer, window));
    if (how == kFlushLocal) OK(MPI_Win_flush_local(peer, window));
    if (how == kLockAll) OK(MPI_Win_flush_all(window));
    if (how == kLockAll) OK(MPI_Win_flush_local_all(window));
    OK(how == kLockAll ? MPI_Win_unlock_all(window) : MPI_Win_unlock(peer, window));
    EXPECT_EQ(in, peer);
    away_check(peer, k, data, requests);
  }
  OK(MPI_Barrier(comm));
}
#define AWAY_LOCK(name, how)                                               \
  CASE(away, name) {                                                       \
    NEED_RANKS(2);                                                         \
    cells[2] = rank;                                                       \
    MAKE_WINDOW;                                                           \
    for (int k = 0; k < kAwayKinds; ++k) locked(comm, rank, size, how, k); \
    OK(MPI_Win_free(&window));                                             \
  }
AWAY_LOCK(lock_unlock, kUnlock)
AWAY_LOCK(lock_flush, kFlush)
AWAY_LOCK(lock_flush_local, kFlushLocal)
AWAY_LOCK(lock_all, kLockAll)
