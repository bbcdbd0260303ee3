// The program `zerohop`: `zerohop run` itself, which every rank of a job starts with; all other commands are those of
// `zerohop-tools` beside it.
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string_view>
#include <vector>

#include "os/program.h"
#include "tools/cli/command_line.h"
#include "tools/cli/commands.h"

int main(int argc, char** argv) {
  using namespace zh;
  if (argc > 1 && std::string_view(argv[1]) == "run") return tools::command_main(argc, argv, {tools::add_run_command});
  const std::string program = os::own_folder() + "/zerohop-tools";
  const int error = os::execute(program, {argv, argv + argc});
  std::fprintf(stderr, "zerohop: %s: %s%s\n", program.c_str(), std::strerror(error),
               error == ENOENT ? ". It has all commands but `zerohop run`; in a checkout, `make build` makes it." : "");
  return error == ENOENT ? 127 : 126;
}
