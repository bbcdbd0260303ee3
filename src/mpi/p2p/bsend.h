// Buffered sends (MPI standard 3.6): the attached buffers and the copies in them. Every buffered send of a program is
// zerohop's, also towards other nodes and on communicators of the host: one buffer cannot have two owners.
#pragma once

#include "mpi/shim.h"

namespace zh::mpi {

struct BsendBuffer;
struct MessageCall;
struct Operation;

/// The copy is made and its send started; `op` is complete at once (kDone).
int start_bsend(Operation* op, const MessageCall& call);
/// Whether a buffer is attached that buffered sends on `comm` would use.
bool bsend_ready(MPI_Comm comm);

/// `comm` null: the buffer of the process. Errors are returned, not raised.
int bsend_attach(const MPI_Comm* comm, void* base, MPI_Count bytes);
int bsend_detach(const MPI_Comm* comm, void* base_out, MPI_Count* bytes);
/// The buffer, or null if there is none attached.
BsendBuffer* bsend_buffer(const MPI_Comm* comm);
/// Whether every copy has been sent; frees the space of those that have.
bool bsend_flushed(BsendBuffer* buffer);
/// After `comm` was freed: its buffer belongs to no communicator, and lives until its copies have been sent.
void bsend_forget(MPI_Comm comm);
/// Finishes everything (MPI_Finalize).
void bsend_finish_all();

}  // namespace zh::mpi
