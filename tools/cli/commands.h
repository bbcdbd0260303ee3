// The subcommands of `zerohop`: one function and one file each. Both programs call them; they know nothing of
// each other.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace zh::tools {

void add_run_command(CLI::App& app);
void add_info_command(CLI::App& app);
void add_doctor_command(CLI::App& app);
/// The parent of `bench p2p` and its like.
void add_bench_command(CLI::App& app);
void add_schedule_command(CLI::App& app);
/// The parent of `model report`.
void add_model_command(CLI::App& app);
void add_tune_command(CLI::App& app);
void add_top_command(CLI::App& app);
/// The figures of the papers.
void add_reproduce_command(CLI::App& app);
/// `report` and `compare`: of the files of ZEROHOP_STATS.
void add_report_commands(CLI::App& app);

/// `completion`, and the manual pages.
void add_completion_command(CLI::App& app);

/// What a subcommand's callback leaves behind for main(): the process's exit code.
extern int exit_code;

/// libzerohop.so beside this executable (../lib, ../lib64, the same folder); "" if it is not there.
[[nodiscard]] std::string find_library();
/// Whether the whole text is in the file now; if not, `zerohop <command>` says so on standard error.
[[nodiscard]] bool write_file(const std::string& path, const std::string& text, const std::string& command);
/// Says why `zerohop <command>` does not do it; gives `code` back.
int refuse(const std::string& command, const std::string& why, int code = 2);
/// "2026-01-31", in UTC; `instead`, where it is not null: the seconds since 1970 of another day.
[[nodiscard]] std::string today(const char* instead = nullptr);
/// Rank in the job whose launcher started this process, by the launchers' variables; 0 outside of a job.
[[nodiscard]] int launched_rank();
/// Its number among the job's ranks on this machine, as far as the launcher tells; else as launched_rank().
[[nodiscard]] int launched_local_rank();
/// Ranks of the job on this machine by the launchers' variables; 0 if unknown.
[[nodiscard]] int launched_local_ranks();

/// Of "30", "30s", "2m" or "1h", in nanoseconds; 0 of anything else.
[[nodiscard]] uint64_t patience_ns_of(const std::string& text);

/// A command that is `python3 -m zerohop <module>`, which is told this command, and all that stands behind its name.
/// Without a module the first word names it.
void add_python_command(CLI::App& parent, const std::string& name, const std::string& module, const std::string& about);

}  // namespace zh::tools
