// Giving the CPU to another thread.
#pragma once

namespace zh::os {

/// sched_yield: lets another runnable thread have this CPU; returns at once if there is none.
void yield_cpu();

}  // namespace zh::os
