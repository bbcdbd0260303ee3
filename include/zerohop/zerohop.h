/* The C face of zerohop's engine, without MPI, so that any runtime on one node can embed it: messages and collectives.
 *
 * The interface is LiMIC's (ICPP'05, section 4.1) with today's means: messages are matched on (source, tag, context),
 * either with a wildcard; whichever side arrives later at a large message moves it, and when both are there both do.
 * Ranks are processes of one node and one user; a collective of yours (allgather) makes them known to each other.
 *
 * Every function returns 0 or a negative errno unless said otherwise. A zh_rank may be used by one thread at a time
 * unless zh_enable_threads() was called first. Lengths are bytes. */
#ifndef ZEROHOP_ZEROHOP_H
#define ZEROHOP_ZEROHOP_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ZH_API __attribute__((visibility("default")))
#define ZH_ANY_SOURCE (-1)
#define ZH_ANY_TAG (-1)
#define ZH_VERSION_STRING "0.1.0"

typedef struct zh_rank zh_rank;       /* one participant */
typedef struct zh_request zh_request; /* a started operation */
typedef struct zh_message zh_message; /* a message taken by zh_improbe */

/* out[i * bytes .. + bytes) = rank i's `in`, on every rank; 0 or a negative errno. */
typedef int (*zh_allgather_fn)(void* user, const void* in, size_t bytes, void* out);

typedef struct zh_job {
  int rank; /* of the caller, 0 <= rank < size */
  int size;
  zh_allgather_fn allgather;
  void* user;          /* first argument of allgather */
  size_t memory_bytes; /* shared memory that a rank may come to use; 0: 64 MiB */
} zh_job;

typedef struct zh_status {
  int source;
  int tag;
  size_t bytes; /* received: min(sent, capacity) */
  int error;    /* 0, -EMSGSIZE (the message was longer than the buffer), -EOWNERDEAD (the peer is gone) */
  int cancelled;
} zh_status;

/* Collective over the job. Ranks on other nodes take part but cannot be reached: see zh_reachable(). */
ZH_API int zh_open(const zh_job* job, zh_rank** out);
/* Collective; waits until all sends have left. */
ZH_API int zh_close(zh_rank* self);
ZH_API const char* zh_version(void);

/* 1 if `rank` shares this node. */
ZH_API int zh_reachable(const zh_rank* self, int rank);
/* From now on several threads may call. */
ZH_API void zh_enable_threads(zh_rank* self);

/* Start to send or receive. With count > 1 the buffer is the concatenation of the pieces. The pieces' memory must stay
 * untouched until the request is complete; the iovec array itself may be reused at once.
 * -EINVAL: rank not reachable, tag < 0; -ENOMEM. */
ZH_API int zh_isend(zh_rank* self, int dest, int tag, uint64_t context, const struct iovec* pieces, int count,
                    zh_request** out);
/* As zh_isend, complete only when the receiver has started to receive it. */
ZH_API int zh_issend(zh_rank* self, int dest, int tag, uint64_t context, const struct iovec* pieces, int count,
                     zh_request** out);
/* source may be ZH_ANY_SOURCE, tag ZH_ANY_TAG. */
ZH_API int zh_irecv(zh_rank* self, int source, int tag, uint64_t context, const struct iovec* pieces, int count,
                    zh_request** out);

/* 1: complete, the request is freed and *status filled (may be NULL); 0: not yet. */
ZH_API int zh_test(zh_rank* self, zh_request* request, zh_status* status);
/* Waits, then as zh_test. */
ZH_API int zh_wait(zh_rank* self, zh_request* request, zh_status* status);
/* 1: the operation will not happen (complete it with zh_wait, status says cancelled); 0: it had matched. */
ZH_API int zh_cancel(zh_rank* self, zh_request* request);

/* 1 and *status: a message that would match is there; 0: none; -EOWNERDEAD: who would have sent it is gone. */
ZH_API int zh_iprobe(zh_rank* self, int source, int tag, uint64_t context, zh_status* status);
/* As zh_iprobe, and takes the message out of matching: receive it with zh_imrecv, and only so. */
ZH_API int zh_improbe(zh_rank* self, int source, int tag, uint64_t context, zh_message** out, zh_status* status);
ZH_API int zh_imrecv(zh_rank* self, zh_message* message, const struct iovec* pieces, int count, zh_request** out);

/* --- Collectives of all ranks of the job, which must share this node.
 *
 * All ranks make the same calls in the same order, blocking and nonblocking ones counted apart, and agree on bytes,
 * count, type, operation and root. `bytes` and `count` are those of one rank's piece; a buffer of all pieces has them
 * one behind another, by rank. Operands are combined in the order of ranks. Buffers of a call do not overlap, but:
 * - gather, allgather: send NULL on a rank that receives: its piece lies in its place in recv
 * - scatter: recv NULL on the root: its piece stays where it is
 * - reductions: `in` may be `out`
 * -ENOSYS: some ranks are on other nodes; -ENOMEM: a rank has no memory for it, on all ranks alike; -EINVAL: wrong
 * root, an operation that the type has not; where ranks disagree on a length, on those that see it: -EMSGSIZE (more
 * came than expected) or -EINVAL (less did), on others that depend on these -EIO; -EOWNERDEAD: a rank is gone. zh_close
 * waits for nonblocking ones. The first call of a rank waits for all others. */
typedef enum zh_type {
  ZH_INT8,
  ZH_INT16,
  ZH_INT32,
  ZH_INT64,
  ZH_UINT8,
  ZH_UINT16,
  ZH_UINT32,
  ZH_UINT64,
  ZH_FLOAT,
  ZH_DOUBLE
} zh_type;
typedef enum zh_op { ZH_SUM, ZH_PROD, ZH_MIN, ZH_MAX, ZH_BAND, ZH_BOR, ZH_BXOR } zh_op;

ZH_API int zh_barrier(zh_rank* self);
ZH_API int zh_bcast(zh_rank* self, void* data, size_t bytes, int root);
ZH_API int zh_gather(zh_rank* self, const void* send, size_t bytes, void* recv, int root);
ZH_API int zh_scatter(zh_rank* self, const void* send, size_t bytes, void* recv, int root);
ZH_API int zh_allgather(zh_rank* self, const void* send, size_t bytes, void* recv);
ZH_API int zh_alltoall(zh_rank* self, const void* send, size_t bytes, void* recv);
ZH_API int zh_reduce(zh_rank* self, const void* in, void* out, size_t count, zh_type type, zh_op op, int root);
ZH_API int zh_allreduce(zh_rank* self, const void* in, void* out, size_t count, zh_type type, zh_op op);
/* `in` has a piece of `count` elements for each rank, `out` gets the own one, combined. */
ZH_API int zh_reduce_scatter(zh_rank* self, const void* in, void* out, size_t count, zh_type type, zh_op op);
/* out = in of rank 0 op ... op in of this rank. */
ZH_API int zh_scan(zh_rank* self, const void* in, void* out, size_t count, zh_type type, zh_op op);

/* Start to do the same; complete with zh_test or zh_wait, whose status has an error only. They go on whenever the rank
 * is in a call of this header. Buffers stay untouched until then. */
ZH_API int zh_ibarrier(zh_rank* self, zh_request** out);
ZH_API int zh_ibcast(zh_rank* self, void* data, size_t bytes, int root, zh_request** out);
ZH_API int zh_iallgather(zh_rank* self, const void* send, size_t bytes, void* recv, zh_request** out);
ZH_API int zh_ialltoall(zh_rank* self, const void* send, size_t bytes, void* recv, zh_request** out);
ZH_API int zh_iallreduce(zh_rank* self, const void* in, void* out, size_t count, zh_type type, zh_op op,
                         zh_request** request);

/* One turn of the engine: 1 if anything moved. Only needed by programs that never wait. */
ZH_API int zh_progress(zh_rank* self);
/* Counters as JSON; free() the text. */
ZH_API char* zh_statistics(const zh_rank* self);

#ifdef __cplusplus
}
#endif
#endif
