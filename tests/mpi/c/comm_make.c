// Every constructor of intracommunicators, with point-to-point traffic on what it makes.
#include "check.h"

// A ring over the communicator, small and large, plus a wildcard: all that shows that ranks and context are right.
static void traffic(MPI_Comm comm, int salt) {
  int me, members;
  OK(MPI_Comm_rank(comm, &me));
  OK(MPI_Comm_size(comm, &members));
  int right = (me + 1) % members, left = (me + members - 1) % members;
  for (int len_bytes = 8; len_bytes <= 80000; len_bytes *= 100) {
    unsigned char *out = malloc((size_t)len_bytes), *in = malloc((size_t)len_bytes);
    check_fill(out, (size_t)len_bytes, check_key(me, salt, len_bytes, 0));
    MPI_Status status = check_blank_status();
    MPI_Request receive;
    OK(MPI_Irecv(in, len_bytes, MPI_BYTE, salt % 2 ? MPI_ANY_SOURCE : left, 5, comm, &receive));
    OK(MPI_Send(out, len_bytes, MPI_BYTE, right, 5, comm));
    OK(MPI_Wait(&receive, &status));
    EXPECT_STATUS(&status, left, 5, MPI_BYTE, len_bytes);
    EXPECT_FILL(in, (size_t)len_bytes, check_key(left, salt, len_bytes, 0));
    free(out);
    free(in);
  }
}

CASE(comm_make, dup) {
  MPI_Comm made;
  OK(MPI_Comm_dup(comm, &made));
  int result = -1;
  OK(MPI_Comm_compare(comm, made, &result));
  EXPECT_EQ(result, MPI_CONGRUENT);
  traffic(made, 1);
  OK(MPI_Comm_free(&made));
  EXPECT(made == MPI_COMM_NULL, "Comm_free leaves the handle");
}

CASE(comm_make, dup_with_info) {
  MPI_Info info;
  OK(MPI_Info_create(&info));
  OK(MPI_Info_set(info, "mpi_assert_no_any_tag", "false"));
  MPI_Comm made[2];
  OK(MPI_Comm_dup_with_info(comm, info, &made[0]));
  OK(MPI_Comm_dup_with_info(comm, MPI_INFO_NULL, &made[1]));
  traffic(made[0], 1);
  traffic(made[1], 2);
  OK(MPI_Comm_free(&made[0]));
  OK(MPI_Comm_free(&made[1]));
  OK(MPI_Info_free(&info));
}

// The key with which a program keeps one communicator with the host: it must work like any other.
CASE(comm_make, dup_kept_with_the_host) {
  MPI_Info info;
  OK(MPI_Info_create(&info));
  OK(MPI_Info_set(info, "zerohop", "off"));
  MPI_Comm off, below;
  OK(MPI_Comm_dup_with_info(comm, info, &off));
  traffic(off, 1);
  OK(MPI_Comm_dup(off, &below));
  traffic(below, 2);
  // Requests of both kinds of communicator in one list.
  int in[2] = {-1, -1};
  MPI_Request list[4];
  OK(MPI_Irecv(&in[0], 1, MPI_INT, left, 1, off, &list[0]));
  OK(MPI_Irecv(&in[1], 1, MPI_INT, left, 1, comm, &list[1]));
  OK(MPI_Isend(&rank, 1, MPI_INT, right, 1, off, &list[2]));
  OK(MPI_Isend(&size, 1, MPI_INT, right, 1, comm, &list[3]));
  OK(MPI_Waitall(4, list, MPI_STATUSES_IGNORE));
  EXPECT_EQ(in[0], left);
  EXPECT_EQ(in[1], size);
  OK(MPI_Comm_free(&below));
  OK(MPI_Comm_free(&off));
  OK(MPI_Info_free(&info));
}

CASE(comm_make, idup_with_traffic_before_completion) {
  MPI_Comm made[3];
  MPI_Request requests[3];
  for (int i = 0; i < 3; ++i) OK(MPI_Comm_idup(comm, &made[i], &requests[i]));
  // The parent stays in use while its duplicates are being made.
  int in = -1;
  for (int i = 0; i < 10; ++i) {
    OK(MPI_Sendrecv(&rank, 1, MPI_INT, right, i, &in, 1, MPI_INT, left, i, comm, MPI_STATUS_IGNORE));
    EXPECT_EQ(in, left);
  }
  OK(MPI_Waitall(3, requests, MPI_STATUSES_IGNORE));
  for (int i = 0; i < 3; ++i) traffic(made[i], i);
  for (int i = 2; i >= 0; --i) OK(MPI_Comm_free(&made[i]));
}

#if HAVE_MPI4_CORE
CASE(comm_make, idup_with_info) {
  MPI_Comm made;
  MPI_Request request;
  OK(MPI_Comm_idup_with_info(comm, MPI_INFO_NULL, &made, &request));
  OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
  traffic(made, 1);
  OK(MPI_Comm_free(&made));
}
#endif

CASE(comm_make, split_even_odd) {
  MPI_Comm made;
  OK(MPI_Comm_split(comm, rank % 2, 0, &made));
  int me, members;
  OK(MPI_Comm_rank(made, &me));
  OK(MPI_Comm_size(made, &members));
  EXPECT_EQ(me, rank / 2);
  EXPECT_EQ(members, (size + (rank % 2 == 0)) / 2);
  traffic(made, rank % 2);
  OK(MPI_Comm_free(&made));
}

CASE(comm_make, split_reversed_keys) {
  MPI_Comm made;
  OK(MPI_Comm_split(comm, 7, size - rank, &made));
  int me;
  OK(MPI_Comm_rank(made, &me));
  EXPECT_EQ(me, size - 1 - rank);
  traffic(made, 2);
  OK(MPI_Comm_free(&made));
}

CASE(comm_make, split_equal_keys_keep_order) {
  MPI_Comm made;
  OK(MPI_Comm_split(comm, 0, rank == size - 1 ? -5 : 9, &made));
  int me;
  OK(MPI_Comm_rank(made, &me));
  EXPECT_EQ(me, rank == size - 1 ? 0 : rank + 1);
  traffic(made, 3);
  OK(MPI_Comm_free(&made));
}

CASE(comm_make, split_undefined) {
  MPI_Comm made = comm;
  OK(MPI_Comm_split(comm, rank == 0 ? MPI_UNDEFINED : 1, 0, &made));
  if (rank == 0) {
    EXPECT(made == MPI_COMM_NULL, "an undefined color gives a communicator");
  } else {
    traffic(made, 1);
    OK(MPI_Comm_free(&made));
  }
}

CASE(comm_make, split_type_shared) {
  MPI_Comm made, none;
  OK(MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &made));
  traffic(made, 1);
  OK(MPI_Comm_free(&made));
  OK(MPI_Comm_split_type(comm, MPI_UNDEFINED, rank, MPI_INFO_NULL, &none));
  EXPECT(none == MPI_COMM_NULL, "an undefined type gives a communicator");
}

// The ranks from `first` on, last first.
static MPI_Group reversed_group(MPI_Comm comm, int first) {
  MPI_Group all, made;
  int size, ranks[1024], count = 0;
  OK(MPI_Comm_size(comm, &size));
  OK(MPI_Comm_group(comm, &all));
  for (int i = size - 1; i >= first; --i) ranks[count++] = i;
  OK(MPI_Group_incl(all, count, ranks, &made));
  OK(MPI_Group_free(&all));
  return made;
}

CASE(comm_make, create_all_reversed) {
  MPI_Group group = reversed_group(comm, 0);
  MPI_Comm made;
  OK(MPI_Comm_create(comm, group, &made));
  OK(MPI_Group_free(&group));
  int me;
  OK(MPI_Comm_rank(made, &me));
  EXPECT_EQ(me, size - 1 - rank);
  traffic(made, 4);
  OK(MPI_Comm_free(&made));
}

CASE(comm_make, create_some) {
  NEED_RANKS(2);
  MPI_Group group = reversed_group(comm, 1);
  MPI_Comm made;
  OK(MPI_Comm_create(comm, group, &made));
  OK(MPI_Group_free(&group));
  if (rank == 0) {
    EXPECT(made == MPI_COMM_NULL, "a rank outside of the group got a communicator");
  } else {
    traffic(made, 1);
    OK(MPI_Comm_free(&made));
  }
}

CASE(comm_make, create_group) {
  NEED_RANKS(2);
  if (rank > 0) {  // rank 0 takes no part at all
    MPI_Group group = reversed_group(comm, 1);
    for (int i = 0; i < 3; ++i) {
      MPI_Comm made;
      OK(MPI_Comm_create_group(comm, group, 40 + i / 2, &made));
      traffic(made, i);
      OK(MPI_Comm_free(&made));
    }
    OK(MPI_Group_free(&group));
  }
}

// Two disjoint groups make their communicators at the same time, with the same tag.
CASE(comm_make, create_group_disjoint) {
  MPI_Group all, group;
  int ranks[1024], count = 0;
  OK(MPI_Comm_group(comm, &all));
  for (int i = rank % 2; i < size; i += 2) ranks[count++] = i;
  OK(MPI_Group_incl(all, count, ranks, &group));
  MPI_Comm made[2];
  OK(MPI_Comm_create_group(comm, group, 1, &made[0]));
  OK(MPI_Comm_create_group(made[0], group, 1, &made[1]));
  traffic(made[0], 1);
  traffic(made[1], 2);
  int result;
  OK(MPI_Comm_compare(made[0], made[1], &result));
  EXPECT_EQ(result, MPI_CONGRUENT);
  OK(MPI_Comm_free(&made[1]));
  OK(MPI_Comm_free(&made[0]));
  OK(MPI_Group_free(&group));
  OK(MPI_Group_free(&all));
  // The parent's later children are not confused by children that only some ranks know of.
  MPI_Comm after;
  OK(MPI_Comm_dup(comm, &after));
  traffic(after, 3);
  OK(MPI_Comm_free(&after));
}

// A wildcard receive is open on the parent meanwhile. (Open MPI lets it swallow its own messages.)
CASE(comm_make, create_group_under_open_wildcard) {
  int in = -1;
  MPI_Request receive;
  OK(MPI_Irecv(&in, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &receive));
  MPI_Group group;
  OK(MPI_Comm_group(comm, &group));
  MPI_Comm made;
  OK(MPI_Comm_create_group(comm, group, 3, &made));
  traffic(made, 2);
  OK(MPI_Send(&rank, 1, MPI_INT, right, 9, comm));
  OK(MPI_Wait(&receive, MPI_STATUS_IGNORE));
  EXPECT_EQ(in, left);
  OK(MPI_Comm_free(&made));
  OK(MPI_Group_free(&group));
}

CASE(comm_make, constructors_under_open_wildcard) {
  int in = -1;
  MPI_Request receive;
  OK(MPI_Irecv(&in, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &receive));
  MPI_Comm dup, half, later;
  MPI_Request request;
  OK(MPI_Comm_dup(comm, &dup));
  OK(MPI_Comm_split(comm, rank % 2, rank, &half));
  OK(MPI_Comm_idup(comm, &later, &request));
  OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
  traffic(dup, 1);
  traffic(half, 2);
  traffic(later, 3);
  OK(MPI_Comm_free(&dup));
  OK(MPI_Comm_free(&half));
  OK(MPI_Comm_free(&later));
  OK(MPI_Send(&rank, 1, MPI_INT, right, 9, comm));
  OK(MPI_Wait(&receive, MPI_STATUS_IGNORE));
  EXPECT_EQ(in, left);
}

CASE(comm_make, of_self) {
  MPI_Comm made, world_of_one;
  OK(MPI_Comm_dup(MPI_COMM_SELF, &made));
  traffic(made, 1);
  OK(MPI_Comm_split(comm, rank, 0, &world_of_one));
  traffic(world_of_one, 2);
  OK(MPI_Comm_free(&made));
  OK(MPI_Comm_free(&world_of_one));
}
