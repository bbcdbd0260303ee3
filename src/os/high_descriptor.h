// Where this library's own descriptors lie. Called by whoever makes one that stays open while the program runs.
#pragma once

namespace zh::os {

/// The same open file under a high number, closed by exec; `fd` itself where there is none to have, and -1 as it is.
/// Programs count on low ones: they are looked at one by one, and a program that was started with its standard error
/// closed, or closes it, would write its messages into what came to have that number.
[[nodiscard]] int move_high(int fd);
/// Lets the kernel make its table long enough for them: some microseconds while the process has one thread, and some 10
/// ms in one that has several (it waits for every processor to have let go of the short table).
void widen_descriptor_table();

}  // namespace zh::os
