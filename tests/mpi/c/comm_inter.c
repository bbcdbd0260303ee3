// Intercommunicators: traffic across, every completion call with requests of both kinds, and the merged communicator.
#include "check.h"

struct Halves {
  MPI_Comm half, inter;
  int side, me, here, there;
};

static void open_halves(struct Halves* h, MPI_Comm comm, int rank) {
  h->side = rank % 2;
  OK(MPI_Comm_split(comm, h->side, rank, &h->half));
  OK(MPI_Intercomm_create(h->half, 0, comm, 1 - h->side, 17, &h->inter));
  OK(MPI_Comm_rank(h->inter, &h->me));
  OK(MPI_Comm_size(h->inter, &h->here));
  OK(MPI_Comm_remote_size(h->inter, &h->there));
}

static void close_halves(struct Halves* h) {
  OK(MPI_Comm_free(&h->inter));
  OK(MPI_Comm_free(&h->half));
}

CASE(comm_inter, all_to_all_across) {
  NEED_RANKS(2);
  struct Halves h;
  open_halves(&h, comm, rank);
  MPI_Request requests[128];
  int count = 0, in[64], out[64];
  for (int i = 0; i < h.there; ++i) {
    in[i] = -1;
    out[i] = h.side * 1000 + h.me * 10 + i;
    OK(MPI_Irecv(&in[i], 1, MPI_INT, i, 3, h.inter, &requests[count++]));
    OK(MPI_Isend(&out[i], 1, MPI_INT, i, 3, h.inter, &requests[count++]));
  }
  OK(MPI_Waitall(count, requests, MPI_STATUSES_IGNORE));
  for (int i = 0; i < h.there; ++i) EXPECT_EQ(in[i], (1 - h.side) * 1000 + i * 10 + h.me);
  close_halves(&h);
}

CASE(comm_inter, large_and_wildcard) {
  NEED_RANKS(2);
  struct Halves h;
  open_halves(&h, comm, rank);
  enum { kBytes = 250000 };
  int pairs = h.here < h.there ? h.here : h.there;
  unsigned char *out = check_buffer(kBytes), *in = check_buffer(kBytes);
  if (h.me < pairs) {
    check_fill(out, kBytes, check_key(h.side, h.me, 0, 0));
    MPI_Request send;
    MPI_Status status;
    OK(MPI_Isend(out, kBytes, MPI_BYTE, h.me, 8, h.inter, &send));
    OK(MPI_Recv(in, kBytes, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, h.inter, &status));
    EXPECT_STATUS(&status, h.me, 8, MPI_BYTE, kBytes);
    EXPECT_FILL(in, kBytes, check_key(1 - h.side, h.me, 0, 0));
    OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
  }
  close_halves(&h);
}

CASE(comm_inter, merge_both_orders) {
  NEED_RANKS(2);
  struct Halves h;
  open_halves(&h, comm, rank);
  for (int high = 0; high < 2; ++high) {
    MPI_Comm merged;
    OK(MPI_Intercomm_merge(h.inter, high ? h.side : 1 - h.side, &merged));
    int me, members, in = -1;
    OK(MPI_Comm_rank(merged, &me));
    OK(MPI_Comm_size(merged, &members));
    EXPECT_EQ(members, size);
    bool first = high ? h.side == 0 : h.side == 1;
    EXPECT_EQ(me, first ? h.me : h.there + h.me);
    int right = (me + 1) % members, left = (me + members - 1) % members;
    OK(MPI_Sendrecv(&me, 1, MPI_INT, right, 1, &in, 1, MPI_INT, left, 1, merged, MPI_STATUS_IGNORE));
    EXPECT_EQ(in, left);
    MPI_Comm child;
    OK(MPI_Comm_dup(merged, &child));
    OK(MPI_Sendrecv(&me, 1, MPI_INT, right, 1, &in, 1, MPI_INT, left, 1, child, MPI_STATUS_IGNORE));
    EXPECT_EQ(in, left);
    OK(MPI_Comm_free(&child));
    OK(MPI_Comm_free(&merged));
  }
  close_halves(&h);
}

CASE(comm_inter, mixed_with_intra_requests) {
  NEED_RANKS(2);
  struct Halves h;
  open_halves(&h, comm, rank);
  int peer = rank ^ 1, inter_in = -1, intra_in = -1;
  if (peer < size) {
    MPI_Request list[4];
    OK(MPI_Irecv(&inter_in, 1, MPI_INT, h.me, 1, h.inter, &list[0]));
    OK(MPI_Irecv(&intra_in, 1, MPI_INT, peer, 1, comm, &list[1]));
    OK(MPI_Isend(&rank, 1, MPI_INT, peer, 1, comm, &list[2]));
    OK(MPI_Isend(&rank, 1, MPI_INT, h.me, 1, h.inter, &list[3]));
    int seen = 0;
    for (int i = 0; i < 4; ++i) {
      int index = -1;
      OK(MPI_Waitany(4, list, &index, MPI_STATUS_IGNORE));
      if (index >= 0 && index < 4) seen |= 1 << index;
    }
    EXPECT_EQ(seen, 15);
    EXPECT_EQ(inter_in, peer);
    EXPECT_EQ(intra_in, peer);
  }
  close_halves(&h);
}

CASE(comm_inter, probe_and_dup) {
  NEED_RANKS(2);
  struct Halves h;
  open_halves(&h, comm, rank);
  MPI_Comm copy;
  OK(MPI_Comm_dup(h.inter, &copy));
  if (h.me < (h.here < h.there ? h.here : h.there)) {
    int in = -1;
    MPI_Request send;
    MPI_Status status;
    MPI_Message message;
    OK(MPI_Isend(&rank, 1, MPI_INT, h.me, 6, copy, &send));
    OK(MPI_Probe(MPI_ANY_SOURCE, 6, copy, &status));
    EXPECT_PROBED(&status, h.me, 6, MPI_INT, 1);
    OK(MPI_Mprobe(h.me, 6, copy, &message, MPI_STATUS_IGNORE));
    OK(MPI_Mrecv(&in, 1, MPI_INT, &message, MPI_STATUS_IGNORE));
    EXPECT_EQ(in, rank ^ 1);
    OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
  }
  OK(MPI_Comm_free(&copy));
  close_halves(&h);
}
