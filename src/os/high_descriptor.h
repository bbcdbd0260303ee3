// Where this library's own descriptors lie. Called by whoever makes one that stays open while the program runs.
#pragma once

namespace zh::os {

/// The same open file under a high number, closed by exec; `fd` itself where there is none to have, and -1 as it is.
/// Programs count on low ones: they are looked at one by one, and a program that was started with its standard error
/// closed, or closes it, would write its messages into what came to have that number.
[[nodiscard]] int move_high(int fd);

}  // namespace zh::os
