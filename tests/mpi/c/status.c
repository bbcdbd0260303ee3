// What a status says: source, tag, counts of items and elements, and which fields a call leaves alone.
#include "check.h"

CASE(status, counts) {
  int count = -1;
  int out[10] = {0}, in[10];
  MPI_Status status = check_blank_status();
  OK(MPI_Sendrecv(out, 7, MPI_INT, right, 1, in, 10, MPI_INT, left, 1, comm, &status));
  EXPECT_STATUS(&status, left, 1, MPI_INT, 7);
  OK(MPI_Get_count(&status, MPI_BYTE, &count));
  EXPECT_EQ(count, 28);
  OK(MPI_Get_count(&status, MPI_DOUBLE, &count));
  EXPECT_EQ(count, MPI_UNDEFINED);  // 28 bytes are no whole number of doubles
  OK(MPI_Get_elements(&status, MPI_INT, &count));
  EXPECT_EQ(count, 7);
}

// The status of a receive counts basic elements of its own type, so that a partial last item can be told.
CASE(status, elements_of_partial_items) {
  int count = -1;
  MPI_Datatype triple;
  OK(MPI_Type_contiguous(3, MPI_INT, &triple));
  OK(MPI_Type_commit(&triple));
  for (int sent = 0; sent <= 9; ++sent) {
    int out[9] = {1, 2, 3, 4, 5, 6, 7, 8, 9}, in[9] = {0};
    MPI_Status status = check_blank_status();
    OK(MPI_Sendrecv(out, sent, MPI_INT, right, 1, in, 3, triple, left, 1, comm, &status));
    OK(MPI_Get_count(&status, triple, &count));
    EXPECT_EQ(count, sent % 3 ? MPI_UNDEFINED : sent / 3);
    OK(MPI_Get_elements(&status, triple, &count));
    EXPECT_EQ(count, sent);
    MPI_Count long_count = -1;
    OK(MPI_Get_elements_x(&status, triple, &long_count));
    EXPECT_EQ(long_count, sent);
    for (int i = 0; i < 9; ++i) EXPECT_EQ(in[i], i < sent ? i + 1 : 0);
  }
  OK(MPI_Type_free(&triple));
}

CASE(status, elements_of_mixed_struct) {
  struct Item {
    double d;
    int i;
    char c[3];
  } out[4], in[4];
  memset(out, 0, sizeof out);
  memset(in, 0, sizeof in);
  int lengths[] = {1, 1, 3}, count = -1;
  MPI_Aint displacements[] = {offsetof(struct Item, d), offsetof(struct Item, i), offsetof(struct Item, c)};
  MPI_Datatype types[] = {MPI_DOUBLE, MPI_INT, MPI_CHAR}, raw, item;
  OK(MPI_Type_create_struct(3, lengths, displacements, types, &raw));
  OK(MPI_Type_create_resized(raw, 0, sizeof(struct Item), &item));
  OK(MPI_Type_commit(&item));
  for (int i = 0; i < 4; ++i) {
    out[i].d = rank + 0.5 * i;
    out[i].i = rank + i;
    memset(out[i].c, 'a' + i, 3);
  }
  MPI_Status status;
  OK(MPI_Sendrecv(out, 3, item, right, 1, in, 4, item, left, 1, comm, &status));
  OK(MPI_Get_count(&status, item, &count));
  EXPECT_EQ(count, 3);
  OK(MPI_Get_elements(&status, item, &count));
  EXPECT_EQ(count, 15);
  for (int i = 0; i < 3; ++i) {
    EXPECT(in[i].d == left + 0.5 * i && in[i].i == left + i && in[i].c[2] == 'a' + i, "item %d", i);
  }
  EXPECT(in[3].d == 0 && in[3].i == 0, "an item was written that was not sent");
  OK(MPI_Type_free(&raw));
  OK(MPI_Type_free(&item));
}

CASE(status, error_field_is_left_alone_by_single_completions) {
  int in, flag, index;
  MPI_Request request;
  MPI_Status status;
  for (int kind = 0; kind < 5; ++kind) {
    status = check_blank_status();
    OK(MPI_Irecv(&in, 1, MPI_INT, left, 1, comm, &request));
    OK(MPI_Send(&rank, 1, MPI_INT, right, 1, comm));
    if (kind == 0) OK(MPI_Wait(&request, &status));
    if (kind == 1) {
      for (flag = 0; !flag;) OK(MPI_Test(&request, &flag, &status));
    }
    if (kind == 2) OK(MPI_Waitany(1, &request, &index, &status));
    if (kind == 3) {
      for (flag = 0; !flag;) OK(MPI_Testany(1, &request, &index, &flag, &status));
    }
    if (kind == 4) {
      for (flag = 0; !flag;) OK(MPI_Request_get_status(request, &flag, &status));
      OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    }
    EXPECT(status.MPI_ERROR == -7777, "completion of kind %d wrote MPI_ERROR", kind);
    EXPECT_STATUS(&status, left, 1, MPI_INT, 1);
  }
}

CASE(status, ignored_everywhere) {
  int in[2], index, count, indices[2], flag;
  MPI_Request r[2];
  for (int kind = 0; kind < 6; ++kind) {
    OK(MPI_Irecv(&in[0], 1, MPI_INT, left, 1, comm, &r[0]));
    OK(MPI_Isend(&rank, 1, MPI_INT, right, 1, comm, &r[1]));
    if (kind == 0) OK(MPI_Waitall(2, r, MPI_STATUSES_IGNORE));
    if (kind == 1) {
      for (flag = 0; !flag;) OK(MPI_Testall(2, r, &flag, MPI_STATUSES_IGNORE));
    }
    if (kind == 2) {
      for (int i = 0; i < 2; ++i) OK(MPI_Waitany(2, r, &index, MPI_STATUS_IGNORE));
    }
    if (kind == 3) {
      for (int done = 0; done < 2; done += count) OK(MPI_Waitsome(2, r, &count, indices, MPI_STATUSES_IGNORE));
    }
    if (kind == 4) {
      for (int done = 0; done < 2; done += count) OK(MPI_Testsome(2, r, &count, indices, MPI_STATUSES_IGNORE));
    }
    if (kind == 5) {
      for (int done = 0; done < 2; done += flag && index != MPI_UNDEFINED) {
        OK(MPI_Testany(2, r, &index, &flag, MPI_STATUS_IGNORE));
      }
    }
    EXPECT_EQ(in[0], left);
    EXPECT(r[0] == MPI_REQUEST_NULL && r[1] == MPI_REQUEST_NULL, "a request stays, kind %d", kind);
  }
}

CASE(status, of_zero_bytes) {
  int count = -1;
  MPI_Datatype empty;
  OK(MPI_Type_contiguous(0, MPI_INT, &empty));
  OK(MPI_Type_commit(&empty));
  MPI_Status status = check_blank_status();
  OK(MPI_Sendrecv(NULL, 0, MPI_INT, right, 1, NULL, 0, MPI_INT, left, 1, comm, &status));
  EXPECT_STATUS(&status, left, 1, MPI_INT, 0);
  int dummy = 0;
  OK(MPI_Sendrecv(&dummy, 5, empty, right, 1, &dummy, 5, empty, left, 1, comm, &status));
  OK(MPI_Get_elements(&status, empty, &count));
  EXPECT_EQ(count, 0);
  OK(MPI_Get_count(&status, MPI_BYTE, &count));
  EXPECT_EQ(count, 0);
  OK(MPI_Type_free(&empty));
}
