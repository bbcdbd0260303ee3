// The objects of a module live as long as its process. A program may use MPI in its exit handlers, MPI_Finalize above
// all (a global object of C++ that stands for the MPI environment): they are older than this module, which came with
// the first MPI call, so they run after its destructors would have. Memory and descriptors go with the process anyway.

namespace zh::mpi {

/// Registers nothing. Hidden, so it answers the calls of this module and of the C++ runtime within it, and no others.
extern "C" [[gnu::visibility("hidden")]] int __cxa_atexit(  // NOLINT(bugprone-reserved-identifier,cert-dcl37-c)
    void (* /*destructor*/)(void*), void* /*object*/, void* /*module*/) {
  return 0;
}

}  // namespace zh::mpi
