// The program `zerohop-tools`: all commands of `zerohop`, each in files of its own (commands.h).
#include "tools/cli/command_line.h"
#include "tools/cli/commands.h"

int main(int argc, char** argv) {
  using namespace zh::tools;
  return command_main(argc, argv,
                      {add_run_command, add_info_command, add_doctor_command, add_bench_command, add_schedule_command,
                       add_model_command, add_tune_command, add_top_command, add_report_commands, add_reproduce_command,
                       add_completion_command});
}
