// Every point-to-point call towards MPI_PROC_NULL: it succeeds at once and receives nothing.
#include "check.h"

#define NOTHING(status) EXPECT_STATUS(status, MPI_PROC_NULL, MPI_ANY_TAG, MPI_BYTE, 0)

CASE(proc_null, blocking) {
  unsigned char* data = check_buffer(100000);
  OK(MPI_Send(data, 100000, MPI_BYTE, MPI_PROC_NULL, 1, comm));
  OK(MPI_Ssend(data, 100000, MPI_BYTE, MPI_PROC_NULL, 1, comm));
  OK(MPI_Rsend(data, 100000, MPI_BYTE, MPI_PROC_NULL, 1, comm));
  OK(MPI_Bsend(data, 100000, MPI_BYTE, MPI_PROC_NULL, 1, comm));  // needs no buffer: nothing is buffered
  MPI_Status status = check_blank_status();
  OK(MPI_Recv(data, 100000, MPI_BYTE, MPI_PROC_NULL, 1, comm, &status));
  NOTHING(&status);
  EXPECT_EQ(status.MPI_ERROR, -7777);
  status = check_blank_status();
  OK(MPI_Sendrecv(data, 10, MPI_BYTE, MPI_PROC_NULL, 1, data + 10, 10, MPI_BYTE, MPI_PROC_NULL, 1, comm, &status));
  NOTHING(&status);
  status = check_blank_status();
  OK(MPI_Sendrecv_replace(data, 100000, MPI_BYTE, MPI_PROC_NULL, 1, MPI_PROC_NULL, 1, comm, &status));
  NOTHING(&status);
  EXPECT_BYTES(data, 100000, UNTOUCHED);
}

CASE(proc_null, nonblocking) {
  unsigned char* data = check_buffer(1000);
  MPI_Request list[5];
  OK(MPI_Isend(data, 1000, MPI_BYTE, MPI_PROC_NULL, 1, comm, &list[0]));
  OK(MPI_Issend(data, 1000, MPI_BYTE, MPI_PROC_NULL, 1, comm, &list[1]));
  OK(MPI_Irsend(data, 1000, MPI_BYTE, MPI_PROC_NULL, 1, comm, &list[2]));
  OK(MPI_Ibsend(data, 1000, MPI_BYTE, MPI_PROC_NULL, 1, comm, &list[3]));
  OK(MPI_Irecv(data, 1000, MPI_BYTE, MPI_PROC_NULL, 1, comm, &list[4]));
  for (int i = 0; i < 5; ++i) {
    int flag = 0;
    OK(MPI_Request_get_status(list[i], &flag, MPI_STATUS_IGNORE));
    EXPECT_EQ(flag, 1);
  }
  MPI_Status statuses[5];
  OK(MPI_Waitall(5, list, statuses));
  NOTHING(&statuses[4]);
  for (int i = 0; i < 5; ++i) EXPECT(list[i] == MPI_REQUEST_NULL, "request %d is not null", i);
  EXPECT_BYTES(data, 1000, UNTOUCHED);
}

CASE(proc_null, persistent) {
  unsigned char* data = check_buffer(1000);
  MPI_Request list[5];
  OK(MPI_Send_init(data, 1000, MPI_BYTE, MPI_PROC_NULL, 1, comm, &list[0]));
  OK(MPI_Ssend_init(data, 1000, MPI_BYTE, MPI_PROC_NULL, 1, comm, &list[1]));
  OK(MPI_Rsend_init(data, 1000, MPI_BYTE, MPI_PROC_NULL, 1, comm, &list[2]));
  OK(MPI_Bsend_init(data, 1000, MPI_BYTE, MPI_PROC_NULL, 1, comm, &list[3]));
  OK(MPI_Recv_init(data, 1000, MPI_BYTE, MPI_PROC_NULL, MPI_ANY_TAG, comm, &list[4]));
  for (int round = 0; round < 3; ++round) {
    OK(MPI_Startall(5, list));
    MPI_Status statuses[5];
    OK(MPI_Waitall(5, list, statuses));
    NOTHING(&statuses[4]);
    for (int i = 0; i < 5; ++i) EXPECT(list[i] != MPI_REQUEST_NULL, "persistent request %d became null", i);
  }
  for (int i = 0; i < 5; ++i) OK(MPI_Request_free(&list[i]));
  EXPECT_BYTES(data, 1000, UNTOUCHED);
}

CASE(proc_null, probes) {
  unsigned char* data = check_buffer(10);
  MPI_Status status = check_blank_status();
  int flag = 0;
  OK(MPI_Probe(MPI_PROC_NULL, 1, comm, &status));
  NOTHING(&status);
  status = check_blank_status();
  OK(MPI_Iprobe(MPI_PROC_NULL, 1, comm, &flag, &status));
  EXPECT_EQ(flag, 1);
  NOTHING(&status);
  for (int kind = 0; kind < 4; ++kind) {
    MPI_Message message = MPI_MESSAGE_NULL;
    status = check_blank_status();
    flag = 1;
    if (kind % 2) {
      OK(MPI_Mprobe(MPI_PROC_NULL, 1, comm, &message, &status));
    } else {
      OK(MPI_Improbe(MPI_PROC_NULL, 1, comm, &flag, &message, &status));
    }
    EXPECT_EQ(flag, 1);
    EXPECT(message == MPI_MESSAGE_NO_PROC, "not MPI_MESSAGE_NO_PROC");
    NOTHING(&status);
    status = check_blank_status();
    if (kind < 2) {
      OK(MPI_Mrecv(data, 10, MPI_BYTE, &message, &status));
    } else {
      MPI_Request request;
      OK(MPI_Imrecv(data, 10, MPI_BYTE, &message, &request));
      OK(MPI_Wait(&request, &status));
    }
    EXPECT(message == MPI_MESSAGE_NULL, "the message handle stays");
    NOTHING(&status);
  }
  EXPECT_BYTES(data, 10, UNTOUCHED);
}

CASE(proc_null, mixed_with_real_ones) {
  int in = -1, nothing = -1;
  MPI_Request list[4];
  OK(MPI_Irecv(&nothing, 1, MPI_INT, MPI_PROC_NULL, 3, comm, &list[0]));
  OK(MPI_Irecv(&in, 1, MPI_INT, left, 3, comm, &list[1]));
  OK(MPI_Isend(&rank, 1, MPI_INT, MPI_PROC_NULL, 3, comm, &list[2]));
  OK(MPI_Isend(&rank, 1, MPI_INT, right, 3, comm, &list[3]));
  MPI_Status statuses[4];
  OK(MPI_Waitall(4, list, statuses));
  NOTHING(&statuses[0]);
  EXPECT_STATUS(&statuses[1], left, 3, MPI_INT, 1);
  EXPECT_EQ(in, left);
  EXPECT_EQ(nothing, -1);
}
