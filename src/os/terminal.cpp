#include "os/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

namespace zh::os {

uint32_t terminal_columns() {
  winsize size{};
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

}  // namespace zh::os
