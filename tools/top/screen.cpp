// See screen.h.
#include "tools/top/screen.h"

#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>

namespace zh::tools::top {
namespace {

constexpr std::string_view kEnter = "\x1b[?1049h\x1b[?25l\x1b[?7l";  // other screen, no cursor, no wrapping
constexpr std::string_view kLeave = "\x1b[?7h\x1b[?25h\x1b[?1049l";
constexpr int kDeadly[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE, SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL};

termios before;  // for the handlers

void put(std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = write(STDOUT_FILENO, text.data(), text.size());
    if (n < 0 && errno != EINTR) return;
    text.remove_prefix(n > 0 ? static_cast<size_t>(n) : 0);
  }
}

void enter_screen() {
  termios raw = before;
  raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
  tcsetattr(STDIN_FILENO, TCSANOW, &raw);
  put(kEnter);
}

void leave_screen() {
  put(kLeave);
  tcsetattr(STDIN_FILENO, TCSANOW, &before);
}

// All that these call may be called in a handler.
void end_by(int number) {
  leave_screen();
  signal(number, SIG_DFL);
  raise(number);
}

void stop(int) {
  leave_screen();
  raise(SIGSTOP);
  enter_screen();
}

void only_wake(int) {}

void handle(int number, void (*by)(int)) {
  struct sigaction action {};
  action.sa_handler = by;
  sigaction(number, &action, nullptr);
}

winsize size_of_terminal() {
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_row == 0) size = {24, 80, 0, 0};
  return size;
}

}  // namespace

bool has_terminal() { return isatty(STDIN_FILENO) != 0 && isatty(STDOUT_FILENO) != 0; }

Screen::Screen() {
  tcgetattr(STDIN_FILENO, &before);
  for (const int number : kDeadly) handle(number, &end_by);
  handle(SIGTSTP, &stop);
  handle(SIGWINCH, &only_wake);
  enter_screen();
}

Screen::~Screen() {
  leave_screen();
  for (const int number : kDeadly) signal(number, SIG_DFL);
  signal(SIGTSTP, SIG_DFL);
  signal(SIGWINCH, SIG_DFL);
}

size_t Screen::columns() const { return size_of_terminal().ws_col; }
size_t Screen::lines() const { return size_of_terminal().ws_row; }

void Screen::show(const std::vector<std::string>& lines, const std::string& last) {
  const size_t room = this->lines() - 1;
  std::string out = "\x1b[H";
  for (size_t i = 0; i < room; ++i) out += (i < lines.size() ? lines[i] : "") + "\x1b[K\r\n";
  put(out + last + "\x1b[K");
}

char Screen::key(int timeout_ms) {
  pollfd input{STDIN_FILENO, POLLIN, 0};
  if (poll(&input, 1, timeout_ms) <= 0) return 0;
  char c = 0;
  return read(STDIN_FILENO, &c, 1) == 1 ? c : 'q';
}

}  // namespace zh::tools::top
