#include "os/yield.h"

#include <sched.h>

namespace zh::os {

void yield_cpu() { sched_yield(); }

}  // namespace zh::os
