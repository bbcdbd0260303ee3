// Every kind of request beside every other, in every function that completes requests or asks for their state: the
// library's own, the host's, inactive ones, null, and a receive that ends in an error. One case is one function; it
// goes through all pairs of kinds and through longer lists drawn from the seed.
//
// All ranks go through the same lists. `let_go` of a kind is what its request waits for, often done for a neighbour:
// before it a kHeld request must not complete.
#include "check.h"

// Hosts whose partitioned messages work beside other requests: Open MPI loses them, Intel MPI ends with a crash.
#if MPI_VERSION >= 4 && defined(MPICH_VERSION) && !defined(I_MPI_VERSION)
#define HAVE_PARTITIONED 1
#else
#define HAVE_PARTITIONED 0
#endif

// MPICH's MPI_Testall calls unfinished requests of files and partitioned messages an error, and its status of an
// inactive partitioned one is not empty.
#if !defined(OMPI_MAJOR_VERSION) && !defined(I_MPI_VERSION)
#define MPICH_ONLY(flags) flags
#else
#define MPICH_ONLY(flags) 0
#endif

enum { kMostEntries = 6, kLargeBytes = 100000, kParts = 2, kRows = 5, kWorth = 1000 };
enum Flags {
  kHeld = 1,     // open until let go
  kLasting = 2,  // the handle stays, inactive
  kIdle = 4,     // null or inactive from the start
  kSingle = 8,   // once in a list
  kError = 16,   // ends in MPI_ERR_TRUNCATE
  kNotInTestall = 32,
};

static struct Env {
  MPI_Comm comm, ring;
  int rank, size, left, right;
  MPI_Win window;
  MPI_File file;
  MPI_Datatype rows;
  int cell;
  unsigned char *large_in[kMostEntries], *large_out[kMostEntries];
} env;

struct Entry {
  const struct Kind* kind;
  int tag, in, out, grid[kRows * 2], around[2];
  unsigned char *large_in, *large_out;
  MPI_Request* request;
  MPI_Request partner;  // the other end of a partitioned message
  MPI_Comm made;
  bool ended;
};

struct Kind {
  const char* name;
  unsigned flags;
  void (*open)(struct Entry*);
  void (*let_go)(struct Entry*);
  void (*status)(struct Entry*, const MPI_Status*);
  void (*verify)(struct Entry*);  // after the request has completed
};

static void nothing(struct Entry* e) { (void)e; }
static void any_status(struct Entry* e, const MPI_Status* status) { (void)e, (void)status; }
static void empty_status(struct Entry* e, const MPI_Status* status) {
  (void)e;
  EXPECT_EMPTY_STATUS(status);
}
static void free_lasting(struct Entry* e) { OK(MPI_Request_free(e->request)); }

// ---- the library's own

static void open_recv(struct Entry* e) { OK(MPI_Irecv(&e->in, 1, MPI_INT, env.left, e->tag, env.comm, e->request)); }
static void open_wildcard(struct Entry* e) {
  OK(MPI_Irecv(&e->in, 1, MPI_INT, MPI_ANY_SOURCE, e->tag, env.comm, e->request));
}
static void send_int(struct Entry* e) { OK(MPI_Send(&e->out, 1, MPI_INT, env.right, e->tag, env.comm)); }
static void int_status(struct Entry* e, const MPI_Status* status) {
  EXPECT_STATUS(status, env.left, e->tag, MPI_INT, 1);
}
static void verify_int(struct Entry* e) { EXPECT_EQ(e->in, e->out + kWorth * (env.left - env.rank)); }

static void fill_large(struct Entry* e) {
  memset(e->large_in, UNTOUCHED, kLargeBytes);
  check_fill(e->large_out, kLargeBytes, check_key(env.rank, e->tag, 8, 8));
}
static void open_large_recv(struct Entry* e) {
  fill_large(e);
  OK(MPI_Irecv(e->large_in, kLargeBytes, MPI_BYTE, env.left, e->tag, env.comm, e->request));
}
static void send_large(struct Entry* e) {
  OK(MPI_Send(e->large_out, kLargeBytes, MPI_BYTE, env.right, e->tag, env.comm));
}
static void large_status(struct Entry* e, const MPI_Status* status) {
  EXPECT_STATUS(status, env.left, e->tag, MPI_BYTE, kLargeBytes);
}
static void verify_large(struct Entry* e) { EXPECT_FILL(e->large_in, kLargeBytes, check_key(env.left, e->tag, 8, 8)); }
static void open_large_send(struct Entry* e) {
  fill_large(e);
  OK(MPI_Issend(e->large_out, kLargeBytes, MPI_BYTE, env.right, e->tag, env.comm, e->request));
}
static void recv_large(struct Entry* e) {
  OK(MPI_Recv(e->large_in, kLargeBytes, MPI_BYTE, env.left, e->tag, env.comm, MPI_STATUS_IGNORE));
}

static void open_ssend(struct Entry* e) {
  OK(MPI_Issend(&e->out, 1, MPI_INT, env.right, e->tag, env.comm, e->request));
}
static void recv_int(struct Entry* e) {
  OK(MPI_Recv(&e->in, 1, MPI_INT, env.left, e->tag, env.comm, MPI_STATUS_IGNORE));
}

// The receive has a type with gaps: what has come is put in place when the request completes.
static void open_packed(struct Entry* e) {
  for (int i = 0; i < kRows * 2; ++i) e->grid[i] = -1;
  OK(MPI_Irecv(e->grid, 1, env.rows, env.left, e->tag, env.comm, e->request));
}
static void send_rows(struct Entry* e) {
  int rows[kRows];
  for (int i = 0; i < kRows; ++i) rows[i] = e->out + i;
  OK(MPI_Send(rows, kRows, MPI_INT, env.right, e->tag, env.comm));
}
static void packed_status(struct Entry* e, const MPI_Status* status) {
  EXPECT_STATUS(status, env.left, e->tag, env.rows, 1);
}
static void verify_packed(struct Entry* e) {
  for (int i = 0; i < kRows; ++i) EXPECT_EQ(e->grid[2 * i], e->out + kWorth * (env.left - env.rank) + i);
}

static void open_persistent_recv(struct Entry* e) {
  OK(MPI_Recv_init(&e->in, 1, MPI_INT, env.left, e->tag, env.comm, e->request));
  OK(MPI_Start(e->request));
}
static void verify_persistent_recv(struct Entry* e) {
  verify_int(e);
  free_lasting(e);
}
static void open_persistent_ssend(struct Entry* e) {
  OK(MPI_Ssend_init(&e->out, 1, MPI_INT, env.right, e->tag, env.comm, e->request));
  OK(MPI_Start(e->request));
}
static void open_inactive(struct Entry* e) {
  OK(MPI_Recv_init(&e->in, 1, MPI_INT, env.left, e->tag, env.comm, e->request));
}

static void send_too_much(struct Entry* e) {
  int three[3] = {1, 2, 3};
  OK(MPI_Send(three, 3, MPI_INT, env.right, e->tag, env.comm));
}
static void truncated_status(struct Entry* e, const MPI_Status* status) {
  EXPECT_EQ(status->MPI_SOURCE, env.left);
  EXPECT_EQ(status->MPI_TAG, e->tag);
}

static void open_allreduce(struct Entry* e) {
  OK(MPI_Iallreduce(&e->out, &e->in, 1, MPI_INT, MPI_SUM, env.comm, e->request));
}
static void verify_sum(struct Entry* e) {
  int first = e->out - kWorth * env.rank;
  EXPECT_EQ(e->in, first * env.size + kWorth * (env.size * (env.size - 1) / 2));
}
static void open_barrier(struct Entry* e) { OK(MPI_Ibarrier(env.comm, e->request)); }

// ---- the host's

static int query(void* state, MPI_Status* status) {
  struct Entry* e = state;
  MPI_Status_set_elements(status, MPI_INT, 3);
  MPI_Status_set_cancelled(status, 0);
  status->MPI_SOURCE = 4242;
  status->MPI_TAG = e->tag;
  return MPI_SUCCESS;
}
static int release(void* state) {
  ++((struct Entry*)state)->in;
  return MPI_SUCCESS;
}
static int cancel(void* state, int complete) {
  (void)state, (void)complete;
  return MPI_SUCCESS;
}
static void open_generalized(struct Entry* e) { OK(MPI_Grequest_start(query, release, cancel, e, e->request)); }
static void complete_generalized(struct Entry* e) { OK(MPI_Grequest_complete(*e->request)); }
static void generalized_status(struct Entry* e, const MPI_Status* status) {
  EXPECT_STATUS(status, 4242, e->tag, MPI_INT, 3);
}
static void verify_released(struct Entry* e) { EXPECT_EQ(e->in, 0); }

static void open_rput(struct Entry* e) {
  OK(MPI_Rput(&e->out, 1, MPI_INT, env.right, 0, 1, MPI_INT, env.window, e->request));
}
static void open_iwrite(struct Entry* e) { OK(MPI_File_iwrite_at(env.file, 0, &e->out, 1, MPI_INT, e->request)); }
static void iwrite_status(struct Entry* e, const MPI_Status* status) {
  (void)e;
  int count = -1;
  OK(MPI_Get_count(status, MPI_INT, &count));
  EXPECT_EQ(count, 1);
}
static void verify_written(struct Entry* e) {
  OK(MPI_File_read_at(env.file, 0, &e->in, 1, MPI_INT, MPI_STATUS_IGNORE));
  EXPECT_EQ(e->in, e->out);
}
static void open_neighbours(struct Entry* e) {
  OK(MPI_Ineighbor_allgather(&e->out, 1, MPI_INT, e->around, 1, MPI_INT, env.ring, e->request));
}
static void verify_neighbours(struct Entry* e) {
  EXPECT_EQ(e->around[0], e->out + kWorth * (env.left - env.rank));
  EXPECT_EQ(e->around[1], e->out + kWorth * (env.right - env.rank));
}
static void open_idup(struct Entry* e) { OK(MPI_Comm_idup(env.comm, &e->made, e->request)); }
static void verify_idup(struct Entry* e) {
  OK(MPI_Barrier(e->made));
  OK(MPI_Comm_free(&e->made));
}

#if HAVE_PARTITIONED
static void make_parts(struct Entry* e) {
  OK(MPI_Psend_init(e->large_out, kParts, kLargeBytes / kParts, MPI_BYTE, env.right, e->tag, env.comm, MPI_INFO_NULL,
                    &e->partner));
  OK(MPI_Precv_init(e->large_in, kParts, kLargeBytes / kParts, MPI_BYTE, env.left, e->tag, env.comm, MPI_INFO_NULL,
                    e->request));
}
static void open_partitioned(struct Entry* e) {
  fill_large(e);
  make_parts(e);
  OK(MPI_Start(&e->partner));
  OK(MPI_Start(e->request));
}
static void parts_ready(struct Entry* e) {
  for (int i = 0; i < kParts; ++i) OK(MPI_Pready(i, e->partner));
}
static void verify_partitioned(struct Entry* e) {
  OK(MPI_Wait(&e->partner, MPI_STATUS_IGNORE));
  OK(MPI_Request_free(&e->partner));
  verify_large(e);
  free_lasting(e);
}
static void open_inactive_parts(struct Entry* e) {
  fill_large(e);
  make_parts(e);
}
static void free_parts(struct Entry* e) {
  OK(MPI_Request_free(&e->partner));
  free_lasting(e);
}
#endif

static const struct Kind kinds[] = {
    {"recv", kHeld, open_recv, send_int, int_status, verify_int},
    {"recv_any", kHeld, open_wildcard, send_int, int_status, verify_int},
    {"recv_large", kHeld, open_large_recv, send_large, large_status, verify_large},
    {"recv_packed", kHeld, open_packed, send_rows, packed_status, verify_packed},
    {"recv_started", kHeld | kLasting, open_persistent_recv, send_int, int_status, verify_persistent_recv},
    {"recv_truncated", kHeld | kError, open_recv, send_too_much, truncated_status, nothing},
    {"ssend", kHeld, open_ssend, recv_int, any_status, verify_int},
    {"ssend_large", kHeld, open_large_send, recv_large, any_status, verify_large},
    {"ssend_started", kHeld | kLasting, open_persistent_ssend, recv_int, any_status, verify_persistent_recv},
    {"allreduce", 0, open_allreduce, nothing, any_status, verify_sum},
    {"barrier", 0, open_barrier, nothing, any_status, nothing},
    {"null", kIdle, nothing, nothing, empty_status, nothing},
    {"inactive", kIdle | kLasting, open_inactive, nothing, empty_status, free_lasting},
    {"generalized", kHeld, open_generalized, complete_generalized, generalized_status, verify_released},
    {"rput", 0, open_rput, nothing, any_status, nothing},
    {"iwrite", kSingle | MPICH_ONLY(kNotInTestall), open_iwrite, nothing, iwrite_status, verify_written},
    {"neighbours", 0, open_neighbours, nothing, any_status, verify_neighbours},
    {"idup", kSingle, open_idup, nothing, any_status, verify_idup},
#if HAVE_PARTITIONED
    {"partitioned", kHeld | kLasting | MPICH_ONLY(kNotInTestall), open_partitioned, parts_ready, any_status,
     verify_partitioned},
    {"inactive_partitioned", kIdle | kLasting | MPICH_ONLY(kNotInTestall), open_inactive_parts, nothing, empty_status,
     free_parts},
#endif
};
enum { kKinds = sizeof kinds / sizeof kinds[0] };

// ---- one list

struct List {
  int n, open;  // entries; those that are neither idle nor completed
  struct Entry entries[kMostEntries];
  MPI_Request requests[kMostEntries], before[kMostEntries];
  MPI_Status statuses[kMostEntries];
  int errors;      // entries that will end in an error
  unsigned flags;  // of all entries
  bool all_held;
};

static void blank(struct List* l) {
  for (int i = 0; i < l->n; ++i) l->statuses[i] = check_blank_status();
}

// One request has completed, by a call that gave `code` for it.
static void ended(struct List* l, int i, int code, const MPI_Status* status) {
  struct Entry* e = &l->entries[i];
  const struct Kind* kind = e->kind;
  EXPECT(!e->ended && !(kind->flags & kIdle), "%s completes a second time", kind->name);
  EXPECT(check_class(code) == (kind->flags & kError ? MPI_ERR_TRUNCATE : MPI_SUCCESS), "%s: %s", kind->name,
         check_class_name(check_class(code)));
  if (status != NULL) kind->status(e, status);
  EXPECT((l->requests[i] == MPI_REQUEST_NULL) == !(kind->flags & kLasting), "%s: its handle", kind->name);
  e->ended = true;
  --l->open;
}

static void untouched(struct List* l) {
  for (int i = 0; i < l->n; ++i) EXPECT(l->requests[i] == l->before[i], "%s: handle", l->entries[i].kind->name);
}

typedef void Form(struct List*, bool before);

// What MPI_Wait or MPI_Test said of one request.
static void took_one(struct List* l, int i, int code, const MPI_Status* status) {
  if (!(l->entries[i].kind->flags & kIdle)) {
    ended(l, i, code, status);
    return;
  }
  OK(code);
  EXPECT_EMPTY_STATUS(status);
}

static void form_wait(struct List* l, bool before) {
  for (int i = l->n - 1; !before && i >= 0; --i) {
    MPI_Status status = check_blank_status();
    int code = MPI_Wait(&l->requests[i], &status);
    took_one(l, i, code, &status);
  }
}

static void form_test(struct List* l, bool before) {
  for (int i = 0; i < l->n; ++i) {
    MPI_Status status = check_blank_status();
    int flag = 0;
    if (before) {
      if (!(l->entries[i].kind->flags & kHeld)) continue;
      OK(MPI_Test(&l->requests[i], &flag, &status));
      EXPECT(!flag, "%s completes before its time", l->entries[i].kind->name);
      continue;
    }
    int code = MPI_SUCCESS;
    while (!flag && code == MPI_SUCCESS) code = MPI_Test(&l->requests[i], &flag, &status);
    took_one(l, i, code, &status);
  }
}

// Statuses of MPI_Waitall and MPI_Testall; those that say MPI_ERR_PENDING stay open.
static void took_all(struct List* l, int code) {
  if (code == MPI_SUCCESS) {
    EXPECT(l->errors == 0, "an error is lost");
  } else {
    EXPECT_EQ(check_class(code), MPI_ERR_IN_STATUS);
  }
  for (int i = 0; i < l->n; ++i) {
    if (l->entries[i].kind->flags & kIdle) {
      EXPECT_EMPTY_STATUS(&l->statuses[i]);
      continue;
    }
    if (l->entries[i].ended) continue;
    int own = code == MPI_SUCCESS ? MPI_SUCCESS : l->statuses[i].MPI_ERROR;
    if (check_class(own) == MPI_ERR_PENDING) continue;
    ended(l, i, own, &l->statuses[i]);
    if (l->entries[i].kind->flags & kError) --l->errors;
  }
}

static void form_waitall(struct List* l, bool before) {
  if (before) return;
  for (int turn = 0; turn < 1000 && l->open > 0; ++turn) {
    blank(l);
    took_all(l, MPI_Waitall(l->n, l->requests, l->statuses));
  }
}

static void form_waitall_ignoring(struct List* l, bool before) {
  if (before) return;
  for (int turn = 0; turn < 1000; ++turn) {
    int code = MPI_Waitall(l->n, l->requests, MPI_STATUSES_IGNORE);
    if (code == MPI_SUCCESS) break;
    EXPECT(l->errors > 0, "Waitall gives %s", check_class_name(check_class(code)));
  }
  for (int i = 0; i < l->n; ++i) {
    if (!(l->entries[i].kind->flags & kIdle)) {
      ended(l, i, l->entries[i].kind->flags & kError ? MPI_ERR_TRUNCATE : MPI_SUCCESS, NULL);
    }
  }
}

static void form_testall(struct List* l, bool before) {
  int flag = 0;
  if (before) {
    if (!(l->flags & kHeld)) return;
    OK(MPI_Testall(l->n, l->requests, &flag, l->statuses));
    EXPECT_EQ(flag, 0);
    untouched(l);
    return;
  }
  while (l->open > 0) {
    blank(l);
    int code = MPI_Testall(l->n, l->requests, &flag, l->statuses);
    if (code == MPI_SUCCESS && !flag) continue;
    int open = l->open;
    took_all(l, code);
    if (l->open == open) break;
  }
}

static void any_form(struct List* l, bool before, bool test) {
  if (before && (!test || !l->all_held || l->open == 0)) return;
  int index = -7, flag = 0;
  MPI_Status status = check_blank_status();
  if (before) {
    OK(MPI_Testany(l->n, l->requests, &index, &flag, &status));
    EXPECT_EQ(flag, 0);
    EXPECT_EQ(index, MPI_UNDEFINED);
    return;
  }
  while (l->open > 0) {
    status = check_blank_status();
    int code = MPI_SUCCESS;
    for (flag = 0, index = -7; !flag && code == MPI_SUCCESS;) {
      code = test ? MPI_Testany(l->n, l->requests, &index, &flag, &status)
                  : (flag = 1, MPI_Waitany(l->n, l->requests, &index, &status));
    }
    EXPECT(index >= 0 && index < l->n, "index %d, %d open", index, l->open);
    if (index < 0 || index >= l->n) return;
    ended(l, index, code, &status);
  }
  status = check_blank_status();
  flag = !test;
  OK(test ? MPI_Testany(l->n, l->requests, &index, &flag, &status) : MPI_Waitany(l->n, l->requests, &index, &status));
  EXPECT_EQ(index, MPI_UNDEFINED);
  EXPECT_EQ(flag, 1);
  EXPECT_EMPTY_STATUS(&status);
}
static void form_waitany(struct List* l, bool before) { any_form(l, before, false); }
static void form_testany(struct List* l, bool before) { any_form(l, before, true); }

static void some_form(struct List* l, bool before, bool test) {
  if (before && (!test || !l->all_held || l->open == 0)) return;
  int count = -7, indices[kMostEntries];
  if (before) {
    OK(MPI_Testsome(l->n, l->requests, &count, indices, l->statuses));
    EXPECT_EQ(count, 0);
    return;
  }
  while (l->open > 0) {
    blank(l);
    int code = test ? MPI_Testsome(l->n, l->requests, &count, indices, l->statuses)
                    : MPI_Waitsome(l->n, l->requests, &count, indices, l->statuses);
    EXPECT(code == MPI_SUCCESS || check_class(code) == MPI_ERR_IN_STATUS, "%s", check_class_name(check_class(code)));
    EXPECT(count >= (test ? 0 : 1) && count <= l->open, "count %d, %d open", count, l->open);
    if (count < 0 || count > l->open) return;
    for (int i = 0; i < count; ++i) {
      ended(l, indices[i], code == MPI_SUCCESS ? MPI_SUCCESS : l->statuses[i].MPI_ERROR, &l->statuses[i]);
    }
  }
  OK(test ? MPI_Testsome(l->n, l->requests, &count, indices, l->statuses)
          : MPI_Waitsome(l->n, l->requests, &count, indices, l->statuses));
  EXPECT_EQ(count, MPI_UNDEFINED);
}
static void form_waitsome(struct List* l, bool before) { some_form(l, before, false); }
static void form_testsome(struct List* l, bool before) { some_form(l, before, true); }

static void form_get_status(struct List* l, bool before) {
  for (int i = 0; i < l->n; ++i) {
    const struct Kind* kind = l->entries[i].kind;
    if (kind->flags & kError) continue;  // whether it gives the error of the message is left open by the standard
    int flag = 0;
    MPI_Status status = check_blank_status();
    if (before) {
      if (!(kind->flags & kHeld)) continue;
      OK(MPI_Request_get_status(l->requests[i], &flag, &status));
      EXPECT(!flag, "%s completes before its time", kind->name);
      continue;
    }
    while (!flag) OK(MPI_Request_get_status(l->requests[i], &flag, &status));
    kind->status(&l->entries[i], &status);
  }
  untouched(l);
  if (!before) form_waitall(l, false);
}

// ---- through the kinds

static unsigned flags_of(const int* chosen, int n) {
  unsigned flags = 0;
  for (int i = 0; i < n; ++i) flags |= kinds[chosen[i]].flags;
  return flags;
}

static void one_list(Form* form, bool errors, const int* chosen, int n, int number) {
  unsigned flags = flags_of(chosen, n);
  if (((flags & kError) != 0) != errors || (form == form_testall && (flags & kNotInTestall))) {
    return;
  }
  static struct List l;
  memset(&l, 0, sizeof l);
  l.n = n;
  l.flags = flags;
  l.all_held = true;
  for (int i = 0; i < n; ++i) {
    struct Entry* e = &l.entries[i];
    e->kind = &kinds[chosen[i]];
    e->tag = (number % 1000) * kMostEntries + i;
    e->in = -1;
    e->out = number % 1000 + kWorth * env.rank;
    e->large_in = env.large_in[i];
    e->large_out = env.large_out[i];
    e->request = &l.requests[i];
    l.requests[i] = MPI_REQUEST_NULL;
    e->kind->open(e);
    l.before[i] = l.requests[i];
    l.open += !(e->kind->flags & kIdle);
    l.errors += (e->kind->flags & kError) != 0;
    if (!(e->kind->flags & (kHeld | kIdle))) l.all_held = false;
  }
  // Nobody lets go before all have looked.
  form(&l, true);
  OK(MPI_Barrier(env.comm));
  for (int i = 0; i < n; ++i) l.entries[(i + number) % n].kind->let_go(&l.entries[(i + number) % n]);
  form(&l, false);
  EXPECT(l.open == 0, "%d did not complete", l.open);
  for (int i = 0; i < n; ++i) l.entries[i].kind->verify(&l.entries[i]);
  static bool said;
  said = said && number > 0;
  if (check_failed_here() && !said) {
    said = true;
    fprintf(stderr, "rank %d: the list", env.rank);
    for (int i = 0; i < n; ++i) fprintf(stderr, " %s", l.entries[i].kind->name);
    fprintf(stderr, "\n");
  }
}

static void through(Form* form, bool errors, MPI_Comm comm, int rank, int size) {
  char path[300];
  int periods[1] = {1}, number = 0;
  env = (struct Env){
      .comm = comm, .rank = rank, .size = size, .left = (rank + size - 1) % size, .right = (rank + 1) % size};
  for (int i = 0; i < kMostEntries; ++i) {
    env.large_in[i] = check_buffer(kLargeBytes);
    env.large_out[i] = check_buffer(kLargeBytes);
  }
  check_temp_path(path, sizeof path);
  OK(MPI_Cart_create(comm, 1, &size, periods, 0, &env.ring));
  OK(MPI_Win_create(&env.cell, sizeof env.cell, sizeof env.cell, MPI_INFO_NULL, comm, &env.window));
  OK(MPI_Win_lock_all(0, env.window));
  OK(MPI_File_open(MPI_COMM_SELF, path, MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL,
                   &env.file));
  OK(MPI_Type_vector(kRows, 1, 2, MPI_INT, &env.rows));
  OK(MPI_Type_commit(&env.rows));

  // All pairs, the order drawn; with little effort a fifth of them.
  uint64_t state = check_seed();
  for (int a = 0; a < kKinds; ++a) {
    for (int b = 0; b <= a; ++b) {
      bool turned = check_random(&state) % 2, left_out = check_reps(5) < 5 && check_random(&state) % 5 != 0;
      int pair[2] = {turned ? a : b, turned ? b : a};
      if (left_out || (a == b && (kinds[a].flags & kSingle))) continue;
      one_list(form, errors, pair, 2, number++);
    }
  }
  for (int list = check_reps(50); list > 0; --list) {
    int chosen[kMostEntries], n = 1 + (int)(check_random(&state) % kMostEntries), taken = 0;
    for (int i = 0; i < n; ++i) {
      int kind = (int)(check_random(&state) % kKinds);
      bool again = false;
      for (int j = 0; j < taken; ++j) again = again || (chosen[j] == kind && (kinds[kind].flags & kSingle));
      if (!again) chosen[taken++] = kind;
    }
    if (taken > 0) one_list(form, errors, chosen, taken, number++);
  }

  OK(MPI_Type_free(&env.rows));
  OK(MPI_File_close(&env.file));
  OK(MPI_Win_unlock_all(env.window));
  OK(MPI_Win_free(&env.window));
  OK(MPI_Comm_free(&env.ring));
}

// Apart: hosts differ in what they do with the other requests of a list in which one ends in an error.
#define FORM(name)                                                              \
  CASE(request_matrix, name) { through(form_##name, false, comm, rank, size); } \
  CASE(request_matrix, name##_with_errors) { through(form_##name, true, comm, rank, size); }

FORM(wait)
FORM(test)
FORM(waitall)
FORM(waitall_ignoring)
FORM(testall)
FORM(waitany)
FORM(testany)
FORM(waitsome)
FORM(testsome)
FORM(get_status)
