// Threads of our own in a foreign process.
#pragma once

#include <pthread.h>

#include <cstddef>

namespace zh::os {

/// Starts a thread that takes no signals: those are the program's. False if there is none to be had.
[[nodiscard]] bool start_thread(pthread_t* thread, size_t stack_bytes, void* (*body)(void*), void* argument);

}  // namespace zh::os
