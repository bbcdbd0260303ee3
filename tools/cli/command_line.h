// How the command line is explained and refused. Called by both programs of
// `zerohop` and by the subcommands; refuses to know what they do.
#pragma once

#include <CLI/CLI.hpp>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace zh::tools {

/// Help that fits the terminal: long lines go on below the column where their explanation begins.
class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_usage(const CLI::App* app, std::string name) const override;
  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const override;
};

/// What to tell of a command line that `app` has refused: names the word that is wrong.
[[nodiscard]] std::string refusal(const CLI::App& app, const CLI::ParseError& error);

/// " did you mean NAME?" with the nearest of the names; "" if none is near.
[[nodiscard]] std::string nearest(const std::string& typed, const std::vector<std::string>& names);

/// The arguments of `zerohop` without the "--" that may stand before the program of `zerohop run`, which CLI11 takes as
/// the end of the subcommand.
[[nodiscard]] std::vector<std::string> arguments_of(int argc, const char* const* argv);

using AddCommand = void (*)(CLI::App&);
/// Reads the command line and runs what it asks for; returns the process's exit code.
int command_main(int argc, const char* const* argv, std::initializer_list<AddCommand> commands);

/// The words so that a shell reads them as they are.
[[nodiscard]] std::string shell_quoted(const std::vector<std::string>& words);

}  // namespace zh::tools
