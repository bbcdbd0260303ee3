// MPI-4 sessions beside MPI_Init: communicators made from process sets, and traffic on them.
#include "check.h"

#if HAVE_MPI4_CORE
static bool session_comm(MPI_Session* session, const char* set, const char* tag, MPI_Comm* made) {
  MPI_Group group;
  if (!OK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, session))) return false;
  if (!OK(MPI_Group_from_session_pset(*session, set, &group))) return false;
  bool good = OK(MPI_Comm_create_from_group(group, tag, MPI_INFO_NULL, MPI_ERRORS_RETURN, made));
  OK(MPI_Group_free(&group));
  return good;
}

CASE(sessions, world_set) {
  MPI_Session session;
  MPI_Comm made;
  if (!session_comm(&session, "mpi://WORLD", "zerohop.test.world", &made)) return;
  int me, members;
  OK(MPI_Comm_rank(made, &me));
  OK(MPI_Comm_size(made, &members));
  EXPECT_EQ(me, rank);
  EXPECT_EQ(members, size);
  for (int len_bytes = 4; len_bytes < 400000; len_bytes *= 50) {
    unsigned char *out = check_buffer((size_t)len_bytes), *in = check_buffer((size_t)len_bytes);
    check_fill(out, (size_t)len_bytes, check_key(rank, len_bytes, 0, 0));
    OK(MPI_Sendrecv(out, len_bytes, MPI_BYTE, right, 1, in, len_bytes, MPI_BYTE, left, 1, made, MPI_STATUS_IGNORE));
    EXPECT_FILL(in, (size_t)len_bytes, check_key(left, len_bytes, 0, 0));
  }
  MPI_Comm child;
  OK(MPI_Comm_dup(made, &child));
  int in = -1;
  OK(MPI_Sendrecv(&me, 1, MPI_INT, right, 1, &in, 1, MPI_INT, left, 1, child, MPI_STATUS_IGNORE));
  EXPECT_EQ(in, left);
  OK(MPI_Comm_free(&child));
  OK(MPI_Comm_free(&made));
  OK(MPI_Session_finalize(&session));
}

CASE(sessions, self_set) {
  MPI_Session session;
  MPI_Comm made;
  if (!session_comm(&session, "mpi://SELF", "zerohop.test.self", &made)) return;
  int in = -1;
  OK(MPI_Sendrecv(&rank, 1, MPI_INT, 0, 1, &in, 1, MPI_INT, 0, 1, made, MPI_STATUS_IGNORE));
  EXPECT_EQ(in, rank);
  OK(MPI_Comm_free(&made));
  OK(MPI_Session_finalize(&session));
}

// A session's communicator and one of the world used in turn. (Their requests in one list would be erroneous,
// MPI-4 11.3.)
CASE(sessions, beside_the_world) {
  MPI_Session session;
  MPI_Comm made;
  if (!session_comm(&session, "mpi://WORLD", "zerohop.test.mixed", &made)) return;
  int in[2] = {-1, -1}, out = rank + 40;
  MPI_Request list[4];
  OK(MPI_Irecv(&in[0], 1, MPI_INT, left, 1, made, &list[0]));
  OK(MPI_Isend(&rank, 1, MPI_INT, right, 1, made, &list[1]));
  OK(MPI_Irecv(&in[1], 1, MPI_INT, left, 1, comm, &list[2]));
  OK(MPI_Isend(&out, 1, MPI_INT, right, 1, comm, &list[3]));
  OK(MPI_Waitall(2, list + 2, MPI_STATUSES_IGNORE));
  OK(MPI_Waitall(2, list, MPI_STATUSES_IGNORE));
  EXPECT_EQ(in[0], left);
  EXPECT_EQ(in[1], left + 40);
  OK(MPI_Comm_free(&made));
  OK(MPI_Session_finalize(&session));
}

#else
CASE(sessions, none) { SKIP("the host's header has no sessions"); }
#endif
