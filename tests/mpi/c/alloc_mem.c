// Memory of MPI_Alloc_mem as message buffers, on one side and on both, freed and allocated again.
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

static void round_trip(MPI_Comm comm, int rank, int size, bool send_side, bool receive_side, size_t offset) {
  int left = (rank + size - 1) % size, right = (rank + 1) % size;
  for (int i = 0; i < check_sizes_count; ++i) {
    size_t len_bytes = check_sizes[i];
    unsigned char *out, *in;
    if (send_side) {
      OK(MPI_Alloc_mem((MPI_Aint)(len_bytes + offset + 1), MPI_INFO_NULL, &out));
    } else {
      out = malloc(len_bytes + offset + 1);
    }
    if (receive_side) {
      OK(MPI_Alloc_mem((MPI_Aint)(len_bytes + offset + 1), MPI_INFO_NULL, &in));
    } else {
      in = malloc(len_bytes + offset + 1);
    }
    check_fill(out + offset, len_bytes, check_key(rank, i, 0, 0));
    memset(in, UNTOUCHED, len_bytes + offset + 1);
    MPI_Request requests[2];
    OK(MPI_Irecv(in + offset, (int)len_bytes, MPI_BYTE, left, 1, comm, &requests[0]));
    OK(MPI_Isend(out + offset, (int)len_bytes, MPI_BYTE, right, 1, comm, &requests[1]));
    OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
    EXPECT_FILL(in + offset, len_bytes, check_key(left, i, 0, 0));
    EXPECT_EQ(in[offset + len_bytes], UNTOUCHED);
    if (send_side) {
      OK(MPI_Free_mem(out));
    } else {
      free(out);
    }
    if (receive_side) {
      OK(MPI_Free_mem(in));
    } else {
      free(in);
    }
  }
}

CASE(alloc_mem, both_sides) { round_trip(comm, rank, size, true, true, 0); }
CASE(alloc_mem, both_sides_unaligned) { round_trip(comm, rank, size, true, true, 3); }
CASE(alloc_mem, send_side) { round_trip(comm, rank, size, true, false, 0); }
CASE(alloc_mem, receive_side) { round_trip(comm, rank, size, false, true, 1); }

CASE(alloc_mem, collective) {
  enum { kBytes = 2 << 20 };
  unsigned char *out, *in;
  OK(MPI_Alloc_mem(kBytes, MPI_INFO_NULL, &out));
  OK(MPI_Alloc_mem((MPI_Aint)kBytes * size, MPI_INFO_NULL, &in));
  check_fill(out, kBytes, check_key(rank, 0, 0, 0));
  memset(in, UNTOUCHED, (size_t)kBytes * (size_t)size);
  OK(MPI_Allgather(out, kBytes, MPI_BYTE, in, kBytes, MPI_BYTE, comm));
  for (int i = 0; i < size; ++i) EXPECT_FILL(in + (size_t)kBytes * (size_t)i, kBytes, check_key(i, 0, 0, 0));
  OK(MPI_Bcast(out, kBytes, MPI_BYTE, size - 1, comm));
  EXPECT_FILL(out, kBytes, check_key(size - 1, 0, 0, 0));
  OK(MPI_Free_mem(out));
  OK(MPI_Free_mem(in));
}

CASE(alloc_mem, zero_bytes_and_alignment) {
  void* memory = NULL;
  OK(MPI_Alloc_mem(0, MPI_INFO_NULL, &memory));
  OK(MPI_Free_mem(memory));
  for (int i = 1; i <= 5000; i = i * 3 + 1) {
    unsigned char* data = NULL;
    OK(MPI_Alloc_mem(i, MPI_INFO_NULL, &data));
    EXPECT(data != NULL && (uintptr_t)data % 8 == 0, "%d bytes at %p", i, (void*)data);
    if (data) memset(data, 7, (size_t)i);
    OK(MPI_Free_mem(data));
  }
}

#if HAVE_MPI4_CORE
CASE(alloc_mem, alignment_by_info) {
  MPI_Info info;
  OK(MPI_Info_create(&info));
  OK(MPI_Info_set(info, "mpi_minimum_memory_alignment", "4096"));
  unsigned char* data = NULL;
  OK(MPI_Alloc_mem(10000, info, &data));
  EXPECT(data != NULL, "no memory");
  if (data) memset(data, 1, 10000);
  OK(MPI_Free_mem(data));
  OK(MPI_Info_free(&info));
}
#endif

// Parent and child each have their own, though peers reach the parent's.
CASE(alloc_mem, forked_child_has_its_own) {
  enum { kBytes = 300000 };
  unsigned char *out, *in;
  OK(MPI_Alloc_mem(kBytes, MPI_INFO_NULL, &out));
  OK(MPI_Alloc_mem(kBytes, MPI_INFO_NULL, &in));
  for (int round = 0; round < 2; ++round) {
    check_fill(out, kBytes, check_key(rank, round, 0, 0));
    OK(MPI_Sendrecv(out, kBytes, MPI_BYTE, right, 1, in, kBytes, MPI_BYTE, left, 1, comm, MPI_STATUS_IGNORE));
    pid_t child = fork();
    if (child == 0) {
      memset(out, 1, kBytes);
      memset(in, 2, kBytes);
      _exit(out[kBytes - 1] == 1 && in[0] == 2 ? 0 : 1);
    }
    int status = -1;
    EXPECT(child > 0 && waitpid(child, &status, 0) == child, "no child");
    EXPECT_EQ(status, 0);
    EXPECT_FILL(in, kBytes, check_key(left, round, 0, 0));
    EXPECT_FILL(out, kBytes, check_key(rank, round, 0, 0));
  }
  OK(MPI_Free_mem(out));
  OK(MPI_Free_mem(in));
}

// The same address serves again with other sizes and contents: a peer must not see what was there before.
CASE(alloc_mem, reused_addresses) {
  int rounds = check_reps(60);
  for (int round = 0; round < rounds; ++round) {
    int len_bytes = 1000 + round * 37777 % 900000;
    unsigned char *out, *in;
    OK(MPI_Alloc_mem(len_bytes, MPI_INFO_NULL, &out));
    OK(MPI_Alloc_mem(len_bytes, MPI_INFO_NULL, &in));
    check_fill(out, (size_t)len_bytes, check_key(rank, round, 0, 0));
    OK(MPI_Sendrecv(out, len_bytes, MPI_BYTE, right, 1, in, len_bytes, MPI_BYTE, left, 1, comm, MPI_STATUS_IGNORE));
    EXPECT_FILL(in, (size_t)len_bytes, check_key(left, round, 0, 0));
    OK(MPI_Free_mem(round % 2 ? out : in));
    OK(MPI_Free_mem(round % 2 ? in : out));
  }
}

CASE(alloc_mem, large_derived_type) {
  enum { kRows = 100000 };
  int *out, *in;
  OK(MPI_Alloc_mem(kRows * 12, MPI_INFO_NULL, &out));
  OK(MPI_Alloc_mem(kRows * 8, MPI_INFO_NULL, &in));
  MPI_Datatype from, to;
  OK(MPI_Type_vector(kRows, 1, 3, MPI_INT, &from));
  OK(MPI_Type_vector(kRows, 1, 2, MPI_INT, &to));
  OK(MPI_Type_commit(&from));
  OK(MPI_Type_commit(&to));
  for (int i = 0; i < kRows * 3; ++i) out[i] = rank + i;
  memset(in, UNTOUCHED, kRows * 8);
  OK(MPI_Sendrecv(out, 1, from, right, 1, in, 1, to, left, 1, comm, MPI_STATUS_IGNORE));
  EXPECT_EACH(kRows, in[2 * i] == left + 3 * i && in[2 * i + 1] == UNTOUCHED_INT, "row %d is %d %d", i, in[2 * i],
              in[2 * i + 1]);
  OK(MPI_Type_free(&from));
  OK(MPI_Type_free(&to));
  OK(MPI_Free_mem(out));
  OK(MPI_Free_mem(in));
}
