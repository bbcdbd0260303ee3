// Random traffic, verified against a plan that every rank computes for itself from the seed.
//
// A round is a list of messages (source, destination, tag, size). Sources send theirs in list order by random modes and
// layouts; a destination receives by one policy: exact, any source, any tag, or both. Within a policy every receive
// finds a message. Oracle: each message comes once, whole, with a right status; and no receive that was posted later
// has taken an earlier message of the same source which a receive posted before it could have taken.
#include "check.h"

enum { kMostMessages = 400, kTags = 4, kHeader = 8, kPersistent = 5 };
enum Policy { kExact, kAnySource, kAnyTag, kAnyBoth, kPolicies };
enum Style { kPostedFirst, kPostedLast, kMatchedProbe, kProbeThenRecv, kPersistentRecv, kStyles };

struct Message {
  int source, destination, tag, len_bytes, mode, layout;
};

struct Receive {
  int source, tag;  // as posted
  int message;      // index in the plan, found out
  unsigned char* data;
  int layout, most_bytes;
  MPI_Request request;
  MPI_Status status;
  MPI_Datatype type;
};

static int random_below(uint64_t* state, int bound) { return (int)(check_random(state) % (uint64_t)bound); }

static int random_size(uint64_t* state) {
  int size = kHeader + (int)(check_random(state) & ((1u << random_below(state, 17)) - 1));
  if (random_below(state, 40) == 0) size = 200000 + random_below(state, 400000);
  return size / 8 * 8;
}

// Layout 0 is contiguous; 1 has blocks of eight bytes, two apart; 2 has one gap in the middle. All in multiples of 8.
static MPI_Datatype make_layout(int layout, int len_bytes) {
  MPI_Datatype type = MPI_DATATYPE_NULL;
  int words = len_bytes / 8;
  if (layout == 1) {
    OK(MPI_Type_vector(words, 8, 16, MPI_BYTE, &type));
  } else {
    int lengths[2] = {words / 2 * 8, (words - words / 2) * 8}, displacements[2] = {0, words / 2 * 8 + 40};
    OK(MPI_Type_indexed(2, lengths, displacements, MPI_BYTE, &type));
  }
  OK(MPI_Type_commit(&type));
  return type;
}

static size_t offset_of(int layout, int len_bytes, int word) {
  if (layout == 1) return (size_t)word * 16;
  if (layout == 2 && word >= len_bytes / 8 / 2) return (size_t)word * 8 + 40;
  return (size_t)word * 8;
}

static size_t room_of(int layout, int len_bytes) { return (size_t)len_bytes * (layout == 1 ? 2 : 1) + 48; }

static void plan_round(uint64_t seed, int round, int size, struct Message* plan, int* count, int* policies,
                       int* styles) {
  uint64_t state = check_key((int)seed, round, size, 12345) ^ seed;
  *count = size * (3 + random_below(&state, 12));
  if (*count > kMostMessages) *count = kMostMessages;
  for (int i = 0; i < *count; ++i) {
    plan[i] = (struct Message){.source = random_below(&state, size),
                               .destination = random_below(&state, size),
                               .tag = random_below(&state, kTags),
                               .len_bytes = random_size(&state),
                               .mode = random_below(&state, 6),
                               .layout = random_below(&state, 6)};
    if (plan[i].layout > 2) plan[i].layout = 0;
  }
  for (int r = 0; r < size; ++r) {
    policies[r] = random_below(&state, kPolicies);
    styles[r] = random_below(&state, kStyles);
  }
}

static void fill_message(const struct Message* m, int index, int round, unsigned char* data) {
  unsigned char* flat = malloc((size_t)m->len_bytes);
  int header[2] = {round, index};
  check_fill(flat, (size_t)m->len_bytes, check_key(m->source, m->destination, index, round));
  memcpy(flat, header, sizeof header);
  for (int w = 0; w < m->len_bytes / 8; ++w) memcpy(data + offset_of(m->layout, m->len_bytes, w), flat + w * 8, 8);
  free(flat);
}

static void send_message(MPI_Comm comm, const struct Message* m, unsigned char* data, MPI_Request* request) {
  MPI_Datatype type = MPI_BYTE;
  int count = m->len_bytes;
  if (m->layout) {
    type = make_layout(m->layout, m->len_bytes);
    count = 1;
  }
  int to = m->destination, tag = m->tag;
  if (m->mode == 1) {
    OK(MPI_Issend(data, count, type, to, tag, comm, request));
  } else if (m->mode == 2) {
    OK(MPI_Ibsend(data, count, type, to, tag, comm, request));
  } else if (m->mode == kPersistent) {
    OK(MPI_Send_init(data, count, type, to, tag, comm, request));
    OK(MPI_Start(request));
  } else {
    OK(MPI_Isend(data, count, type, to, tag, comm, request));
  }
  if (m->layout) OK(MPI_Type_free(&type));
}

// Waits by a random member of the family until all `open` ones are through; persistent ones become inactive.
static void complete(uint64_t* state, int count, int open, MPI_Request* requests, MPI_Status* statuses) {
  int kind = random_below(state, 5);
  if (kind == 0 || count < 1) {
    OK(MPI_Waitall(count, requests, statuses));
    return;
  }
  int* indices = malloc((unsigned)count * sizeof *indices);
  MPI_Status* some = malloc((unsigned)count * sizeof *some);
  while (open > 0) {
    int done = 0, index = -1, flag = 0;
    if (kind == 1) {
      OK(MPI_Waitany(count, requests, &index, &some[0]));
      indices[0] = index;
      done = 1;
    } else if (kind == 2) {
      OK(MPI_Testany(count, requests, &index, &flag, &some[0]));
      indices[0] = index;
      done = flag ? 1 : 0;
    } else if (kind == 3) {
      OK(MPI_Waitsome(count, requests, &done, indices, some));
    } else {
      OK(MPI_Testsome(count, requests, &done, indices, some));
    }
    if (done == MPI_UNDEFINED || (done == 1 && indices[0] == MPI_UNDEFINED)) {
      EXPECT(false, "the list is empty, yet %d requests are not through", open);
      break;
    }
    for (int i = 0; i < done; ++i) statuses[indices[i]] = some[i];
    open -= done;
  }
  free(indices);
  free(some);
}

// Which message of the plan a receive got, and whether all of it is there.
static void identify(struct Receive* r, const struct Message* plan, int count, int me, int round, char* seen) {
  int header[2], received = -1;
  memcpy(header, r->data, sizeof header);
  r->message = -1;
  if (header[0] != round || header[1] < 0 || header[1] >= count) {
    EXPECT(false, "seed %llu round %d: a message with header %d %d", (unsigned long long)check_seed(), round, header[0],
           header[1]);
    return;
  }
  const struct Message* m = &plan[header[1]];
  r->message = header[1];
  EXPECT(!seen[header[1]], "seed %llu round %d: message %d twice", (unsigned long long)check_seed(), round, header[1]);
  seen[header[1]] = 1;
  OK(MPI_Get_elements(&r->status, MPI_BYTE, &received));
  EXPECT(m->destination == me && r->status.MPI_SOURCE == m->source && r->status.MPI_TAG == m->tag &&
             received == m->len_bytes,
         "seed %llu round %d message %d: status says source %d tag %d bytes %d, expected %d %d %d",
         (unsigned long long)check_seed(), round, header[1], r->status.MPI_SOURCE, r->status.MPI_TAG, received,
         m->source, m->tag, m->len_bytes);
  unsigned char* flat = malloc((size_t)m->len_bytes);
  check_fill(flat, (size_t)m->len_bytes, check_key(m->source, me, header[1], round));
  memcpy(flat, header, sizeof header);
  for (int w = 0; w < m->len_bytes / 8; ++w) {
    if (memcmp(flat + w * 8, r->data + offset_of(r->layout, m->len_bytes, w), 8) == 0) continue;
    EXPECT(false, "seed %llu round %d message %d of %d bytes (mode %d, layout %d to %d): word %d differs",
           (unsigned long long)check_seed(), round, header[1], m->len_bytes, m->mode, m->layout, r->layout, w);
    break;
  }
  free(flat);
}

static bool could_take(const struct Receive* r, const struct Message* m) {
  return (r->source == MPI_ANY_SOURCE || r->source == m->source) && (r->tag == MPI_ANY_TAG || r->tag == m->tag);
}

static void verify_order(const struct Receive* receives, int count, const struct Message* plan, int round) {
  for (int i = 0; i < count; ++i) {
    for (int j = i + 1; j < count; ++j) {
      int a = receives[i].message, b = receives[j].message;
      if (a < 0 || b < 0 || plan[a].source != plan[b].source) continue;
      EXPECT(a < b || !could_take(&receives[i], &plan[b]), "seed %llu round %d: message %d overtook %d of source %d",
             (unsigned long long)check_seed(), round, a, b, plan[a].source);
    }
  }
}

static void one_round(MPI_Comm comm, int rank, int size, int round, uint64_t* local) {
  struct Message plan[kMostMessages];
  struct Receive receives[kMostMessages];
  MPI_Request requests[2 * kMostMessages + 8];
  MPI_Status statuses[2 * kMostMessages + 8];
  unsigned char* out[kMostMessages];
  char seen[kMostMessages] = {0};
  int policies[1024], styles[1024], count, mine = 0, sends = 0, open = 0;
  plan_round(check_seed(), round, size, plan, &count, policies, styles);
  int policy = policies[rank], style = styles[rank];

  // The receives in a random order; each as wide as the largest message that it can get.
  int order[kMostMessages];
  for (int i = 0; i < count; ++i) {
    if (plan[i].destination == rank) order[mine++] = i;
  }
  for (int i = mine - 1; i > 0; --i) {
    int other = random_below(local, i + 1), swapped = order[i];
    order[i] = order[other];
    order[other] = swapped;
  }
  for (int i = 0; i < mine; ++i) {
    const struct Message* m = &plan[order[i]];
    struct Receive* r = &receives[i];
    r->source = policy == kAnySource || policy == kAnyBoth ? MPI_ANY_SOURCE : m->source;
    r->tag = policy == kAnyTag || policy == kAnyBoth ? MPI_ANY_TAG : m->tag;
    int most = 0;
    for (int k = 0; k < count; ++k) {
      if (plan[k].destination == rank && could_take(r, &plan[k]) && plan[k].len_bytes > most) most = plan[k].len_bytes;
    }
    r->layout = random_below(local, 4) == 0 ? 1 : 0;  // layout 1 fits messages of any size
    r->most_bytes = most;
    r->data = calloc(1, room_of(r->layout, most));
    r->type = r->layout ? make_layout(r->layout, most) : MPI_BYTE;
    r->request = MPI_REQUEST_NULL;
  }
#define TYPED(r) (r)->data, (r)->layout ? 1 : (r)->most_bytes, (r)->type
  bool posted_first = style == kPostedFirst || style == kPersistentRecv;
  for (int phase = 0; phase < 2; ++phase) {
    if ((phase == 0) == posted_first) {
      for (int i = 0; i < mine; ++i) {
        struct Receive* r = &receives[i];
        if (style == kPersistentRecv) {
          OK(MPI_Recv_init(TYPED(r), r->source, r->tag, comm, &r->request));
          OK(MPI_Start(&r->request));
        } else if (style == kMatchedProbe) {
          MPI_Message message;
          if (i % 2) {
            OK(MPI_Mprobe(r->source, r->tag, comm, &message, MPI_STATUS_IGNORE));
          } else {
            for (int flag = 0; !flag;) OK(MPI_Improbe(r->source, r->tag, comm, &flag, &message, MPI_STATUS_IGNORE));
          }
          OK(MPI_Imrecv(TYPED(r), &message, &r->request));
        } else if (style == kProbeThenRecv) {
          OK(MPI_Probe(r->source, r->tag, comm, &r->status));
          OK(MPI_Recv(TYPED(r), r->source, r->tag, comm, &r->status));
        } else {
          OK(MPI_Irecv(TYPED(r), r->source, r->tag, comm, &r->request));
        }
      }
    } else {
      for (int i = 0; i < count; ++i) {
        if (plan[i].source != rank) continue;
        out[sends] = calloc(1, room_of(plan[i].layout, plan[i].len_bytes));
        fill_message(&plan[i], i, round, out[sends]);
        send_message(comm, &plan[i], out[sends], &requests[sends]);
        ++sends;
        ++open;
        if (random_below(local, 10) == 0) {
          int flag;
          OK(MPI_Testall(sends, requests, &flag, MPI_STATUSES_IGNORE));
          if (flag) open = 0;
        }
      }
    }
  }
  // Some noise: receives that nobody serves, and a collective of the host in the same list.
  MPI_Request persistent_sends[kMostMessages];
  for (int i = 0; i < sends; ++i) persistent_sends[i] = requests[i];
  int total = sends, dummy[2];
  for (int i = 0; i < mine; ++i) requests[total++] = receives[i].request;
  if (style != kProbeThenRecv) open += mine;
  int noise = total;
  OK(MPI_Irecv(&dummy[0], 1, MPI_INT, MPI_ANY_SOURCE, 5000, comm, &requests[total++]));
  OK(MPI_Irecv(&dummy[1], 1, MPI_INT, random_below(local, size), 5001, comm, &requests[total++]));
  OK(MPI_Cancel(&requests[noise]));
  OK(MPI_Cancel(&requests[noise + 1]));
  if (round % 3 == 0) OK(MPI_Ibarrier(comm, &requests[total++]));
  complete(local, total, open + total - noise, requests, statuses);
  for (int i = 0; i < 2; ++i) {
    int cancelled = 0;
    OK(MPI_Test_cancelled(&statuses[noise + i], &cancelled));
    EXPECT(cancelled, "an unmatched receive was not cancelled");
  }
  for (int i = 0; i < mine; ++i) {
    if (style != kProbeThenRecv) receives[i].status = statuses[sends + i];
    identify(&receives[i], plan, count, rank, round, seen);
  }
  verify_order(receives, mine, plan, round);
  for (int i = 0; i < mine; ++i) {
    EXPECT(seen[order[i]], "seed %llu round %d: message %d never came", (unsigned long long)check_seed(), round,
           order[i]);
    if (style == kPersistentRecv) OK(MPI_Request_free(&receives[i].request));
    if (receives[i].layout) OK(MPI_Type_free(&receives[i].type));
    free(receives[i].data);
  }
  int sent = 0;
  for (int i = 0; i < count; ++i) {
    if (plan[i].source != rank) continue;
    if (plan[i].mode == kPersistent) OK(MPI_Request_free(&persistent_sends[sent]));
    free(out[sent++]);
  }
}

static void stress(MPI_Comm comm, int rank, int size, int first, int rounds) {
  uint64_t local = check_key((int)check_seed(), rank, first, 777);
  enum { kAttached = 16 << 20 };
  void* attached = malloc(kAttached);
  OK(MPI_Buffer_attach(attached, kAttached));
  for (int round = first; round < first + rounds && !check_failed_here(); ++round) {
    one_round(comm, rank, size, round, &local);
    // The policies of two rounds must not see one another's messages.
    OK(MPI_Barrier(comm));
  }
  void* detached;
  int detached_bytes;
  OK(MPI_Buffer_detach(&detached, &detached_bytes));
  free(attached);
}

CASE(stress, random_traffic) { stress(comm, rank, size, 0, check_reps(40)); }
CASE(stress, random_traffic_on_a_split) {
  MPI_Comm half;
  int me, members;
  OK(MPI_Comm_split(comm, rank % 2, size - rank, &half));
  OK(MPI_Comm_rank(half, &me));
  OK(MPI_Comm_size(half, &members));
  stress(half, me, members, 1000, check_reps(20));
  OK(MPI_Comm_free(&half));
}
