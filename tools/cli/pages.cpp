// The table of commands and options as manual pages and as completion for shells. What Python's commands take
// (add_python_command) is not in the table: their pages have their help.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>

#include "os/program.h"
#include "tools/cli/command_line.h"
#include "tools/cli/commands.h"
#include "tools/cli/pages.h"
#include "tools/cli/text.h"

namespace zh::tools {
namespace {

struct Entry {
  std::vector<std::string> words;  ///< of a subcommand or option; none: positional
  std::string value;               ///< "TEXT", "" if it takes none
  std::string about;
};

/// One command: "zerohop bench p2p".
struct Command {
  std::string path;
  const CLI::App* app;
  std::vector<Entry> subcommands;
  std::vector<Entry> options;
  std::string positional;  ///< what may stand for its arguments, as far as that is known
};

/// Its options are not in the table.
bool is_in_python(const Command& command) { return command.app->get_prefix_command() && command.path != "zerohop run"; }

std::string replaced(std::string text, std::string_view what, std::string_view by) {
  for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += by.size())
    text.replace(at, what.size(), by);
  return text;
}

/// "a", "b" of "TEXT:{a,b}".
std::string values_of(const Entry& entry) {
  const size_t from = entry.value.find('{');
  const size_t end = entry.value.rfind('}');
  if (from == std::string::npos || end == std::string::npos) return "";
  return replaced(entry.value.substr(from + 1, end - from - 1), ",", " ");
}

/// ". Needs --a. Excludes --b, --c", in the order of names.
std::string relations_of(const CLI::Option& option) {
  std::string out;
  for (const auto& [word, others] :
       {std::pair{". Needs ", option.get_needs()}, {". Excludes ", option.get_excludes()}}) {
    std::set<std::string> names;
    for (const CLI::Option* other : others) names.insert(other->get_name());
    for (const std::string& name : names) out += (name == *names.begin() ? word : ", ") + name;
  }
  return out;
}

std::vector<Command> commands_of(const CLI::App& app, const std::string& path) {
  Command here{path, &app, {}, {}, ""};
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_group().empty()) continue;
    Entry entry{{}, option->get_items_expected_max() != 0 ? option->get_type_name() : "", option->get_description()};
    if (!option->get_default_str().empty()) entry.about += " (default: " + option->get_default_str() + ")";
    entry.about += relations_of(*option);
    if (option->get_positional()) here.positional += values_of(entry);
    for (const std::string& name : option->get_snames()) entry.words.push_back("-" + name);
    for (const std::string& name : option->get_lnames()) entry.words.push_back("--" + name);
    if (!entry.words.empty()) here.options.push_back(entry);
  }
  std::vector<Command> out = {here};
  for (const CLI::App* inner : app.get_subcommands({})) {
    if (inner->get_group().empty()) continue;
    out[0].subcommands.push_back({{inner->get_name()}, "", inner->get_description()});
    for (Command& command : commands_of(*inner, path + " " + inner->get_name())) out.push_back(std::move(command));
  }
  return out;
}

/// Its first sentence, for a line.
std::string short_about(const Entry& entry) {
  const std::string paragraph = replaced(entry.about.substr(0, entry.about.find("\n\n")), "\n", " ");
  const size_t end = paragraph.find(". ");
  return end != std::string::npos ? paragraph.substr(0, end) : paragraph.substr(0, paragraph.find_last_not_of('.') + 1);
}

std::string joined(const std::vector<Entry>& entries) {
  std::string out;
  for (const Entry& entry : entries) {
    for (const std::string& word : entry.words) out += (out.empty() ? "" : " ") + word;
  }
  return out;
}

// ---- manual pages: roff with the macros of man(7)

std::string roff(const std::string& text) {
  std::string out = replaced(replaced(text, "\\", "\\e"), "-", "\\-");
  out = replaced(replaced(out, "\n.", "\n\\&."), "\n'", "\n\\&'");
  for (size_t at = 0; (at = out.find(',', at)) != std::string::npos; ++at) {  // a long list is broken behind a comma
    if (at + 1 < out.size() && out[at + 1] >= 'a' && out[at + 1] <= 'z') out.insert(at + 1, "\\:");
  }
  return !out.empty() && (out[0] == '.' || out[0] == '\'') ? "\\&" + out : out;
}

/// Paragraphs; lines that are indented stay as they are, where they fit beside the margin.
std::string roff_of_text(const std::string& said) {
  const std::string text = fitted(said, 72, false);
  std::string out;
  bool literal = false;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string line = text.substr(at, end - at);
    const bool indented = !line.empty() && line[0] == ' ';
    if (indented != literal && !line.empty()) {
      out += indented ? ".PP\n.nf\n" : ".fi\n.PP\n";
      literal = indented;
    }
    const bool ends = line.empty() && !literal && end + 1 < text.size() && text[end + 1] != ' ';
    out += line.empty() ? (ends ? ".PP\n" : "") : roff(line) + "\n";
    at = end + 1;
  }
  return literal ? out + ".fi\n" : out;
}

/// What a command in Python tells by --help; "" where no Python runs.
std::string help_of(const Command& command) {
  const std::string program = shell_quoted({os::own_folder() + "/zerohop-tools"});
  const std::string rest = command.path.substr(command.path.find(' '));
  std::string text;
  FILE* said = popen(("COLUMNS=72 " + program + rest + " --help 2>/dev/null").c_str(), "r");
  for (int c = 0; said != nullptr && (c = std::fgetc(said)) != EOF;) text += static_cast<char>(c);
  return said != nullptr && pclose(said) == 0 ? text : "";
}

std::string page_of(const Command& command) {
  const std::string name = replaced(command.path, " ", "-");
  std::string upper = name;
  for (char& c : upper) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  const Entry self{{}, "", command.app->get_description()};
  const CLI::App* parent = command.app->get_parent();
  std::string out = ".TH " + roff(upper) + " 1 " + today(std::getenv("SOURCE_DATE_EPOCH")) +
                    " \"zerohop " ZH_VERSION "\"\n.SH NAME\n" + roff(name) + " \\- " + roff(short_about(self)) +
                    "\n.SH SYNOPSIS\n.B " + roff(command.path) + "\n";
  const bool in_python = is_in_python(command);
  out += in_python ? "ARGUMENTS..." : "[OPTIONS]";
  if (!command.subcommands.empty()) out += " COMMAND";
  for (const CLI::Option* option : command.app->get_options()) {
    if (!option->get_positional()) continue;
    const std::string word = roff(option->get_name(true));
    out += option->get_required() ? " " + word : " [" + word + "]";
  }
  if (command.path == "zerohop run") out += " PROGRAM [ARGUMENTS...]";
  out += "\n.SH DESCRIPTION\n" + roff_of_text(self.about);
  const std::string help = in_python ? help_of(command) : "";
  if (!help.empty()) out += ".SH OPTIONS\n" + roff_of_text(help);
  if (in_python && help.empty()) out += ".PP\n`" + roff(command.path) + " \\-\\-help` tells its arguments.\n";
  const std::string footer = command.app->get_footer();
  if (!footer.empty() && (parent == nullptr || footer != parent->get_footer())) out += roff_of_text("\n" + footer);
  for (const auto& [title, entries] : {std::pair{"COMMANDS", &command.subcommands}, {"OPTIONS", &command.options}}) {
    if (!entries->empty()) out += std::string(".SH ") + title + "\n";
    for (const Entry& entry : *entries) {
      out += ".TP\n\\fB" + roff(replaced(joined({entry}), " ", ", ")) + "\\fR";
      if (!entry.value.empty()) out += " \\fI" + roff(entry.value) + "\\fR";
      out += "\n" + roff(entry.about.empty() ? "\\&" : entry.about) + "\n";
    }
  }
  out += ".SH SEE ALSO\n";
  return out +
         (parent == nullptr ? "The guide: docs/user/guide.md in the folder share/doc/zerohop.\n" : "zerohop(1)\n");
}

// ---- completion

/// What the help of a command in Python has for options, as a shell finds it: `help` calls it.
std::string options_in_shell(const std::string& help) {
  return "$(" + help + " --help 2>/dev/null | grep -o -e '--[a-z][a-z-]*' | sort -u)";
}

/// The options of `zerohop run` behind which a word is no program, and what bash divides their values at.
std::string valued_options_of_run(const std::vector<Command>& commands) {
  std::vector<Entry> valued = std::ranges::find(commands, "zerohop run", &Command::path)->options;
  std::erase_if(valued, [](const Entry& option) { return option.value.empty(); });
  return joined(valued) + " = :";
}

/// What bash and zsh share: `at`, the command whose words come next, "" behind the program of `zerohop run`. (`path` is
/// PATH in zsh.)
std::string command_in_shell(const std::vector<Command>& commands, const std::string& words) {
  std::string known;
  for (const Command& command : commands) {
    if (command.app->get_parent() != nullptr) known += (known.empty() ? "" : "|") + ('"' + command.path + '"');
  }
  return "  local at=zerohop word before=\n  for word in " + words + "; do\n    case \"$at $word\" in\n      " + known +
         ") at=\"$at $word\" ;;\n      \"zerohop run \"[-=:]*) ;;\n      \"zerohop run \"*) [[ \" " +
         valued_options_of_run(commands) + " \" == *\" $before \"* ]] || at= ;;\n    esac\n    before=$word\n  done\n";
}

/// ... and the values of an option that was the word before.
std::string values_in_shell(const std::vector<Command>& commands, const std::string& before, const std::string& offer,
                            const std::string& end) {
  std::string out = "  case \"$at " + before + "\" in\n";
  for (const Command& command : commands) {
    for (const Entry& option : command.options) {
      const std::string values = values_of(option);
      if (values.empty()) continue;
      std::string either;
      for (const std::string& word : option.words)
        either += (either.empty() ? "\"" : "|\"") + command.path + " " + word + "\"";
      out += "    " + either + ")\n  " + offer + values + end + "      ;;\n";
    }
  }
  return out + "  esac\n";
}

std::string completion_of_bash(const std::vector<Command>& commands) {
  std::string out = "# Completion of zerohop for bash: source <(zerohop completion bash)\n_zerohop() {\n" +
                    command_in_shell(commands, "\"${COMP_WORDS[@]:1:COMP_CWORD-1}\"") +
                    "  local current=${COMP_WORDS[COMP_CWORD]} words= options=\n" +
                    values_in_shell(commands, "${COMP_WORDS[COMP_CWORD-1]}", "    COMPREPLY=($(compgen -W \"",
                                    "\" -- \"$current\"))\n      return\n");
  out += "  case $at in\n";
  for (const Command& command : commands) {
    out += "    \"" + command.path + "\") words=\"" + joined(command.subcommands) + command.positional +
           "\" options=\"" + joined(command.options) + "\" ;;\n";
  }
  return out + "  esac\n  [[ $current != -* || -z $at ]] || words=${options:-" +
         options_in_shell("\"${COMP_WORDS[0]}\" ${at#zerohop }") +
         "}\n  COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))\n"
         "}\ncomplete -o bashdefault -o default -F _zerohop zerohop\n";
}

std::string table_of_zsh(const std::vector<Entry>& entries) {
  std::string out = "(";
  for (const Entry& entry : entries) {
    for (const std::string& word : entry.words)
      out += "\n          " + shell_quoted({word + ":" + replaced(short_about(entry), ":", "\\:")});
  }
  return out + ")\n";
}

std::string completion_of_zsh(const std::vector<Command>& commands) {
  std::string out =
      "#compdef zerohop\n# Completion of zerohop for zsh: source <(zerohop completion zsh)\n_zerohop() {\n" +
      command_in_shell(commands, "${words[2,CURRENT-1]}") + "  local -a table options values\n  case $at in\n";
  for (const Command& command : commands) {
    out += "    \"" + command.path + "\")\n        table=" + table_of_zsh(command.subcommands) +
           "        options=" + table_of_zsh(command.options) + "        values=(" + command.positional +
           ")\n      ;;\n";
  }
  out += "  esac\n" + values_in_shell(commands, "$words[CURRENT-1]", "    compadd -- ", "\n      return\n");
  return out +
         "  if [[ $words[CURRENT] == -* && -n $at ]]; then\n"
         "    (( $#options )) && _describe option options || compadd -- ${(f)\"" +
         options_in_shell("\"$words[1]\" ${=at#zerohop }") +
         "\"}\n    return\n  fi\n"
         "  (( $#values )) && compadd -- $values\n"
         "  (( $#table )) && _describe command table\n"
         "  (( $#values + $#table )) || _files\n}\n"
         "if [ \"$funcstack[1]\" = _zerohop ]; then _zerohop \"$@\"; else compdef _zerohop zerohop; fi\n";
}

std::string completion_of_fish(const std::vector<Command>& commands) {
  std::string out =
      "# Completion of zerohop for fish: zerohop completion fish | source\nfunction __zerohop_path\n"
      "  set -l path zerohop\n  set -l before\n  for word in (commandline -opc)[2..-1]\n    switch \"$path $word\"\n   "
      "   case";
  for (const Command& command : commands) out += " " + shell_quoted({command.path});
  out +=
      "\n        set path \"$path $word\"\n      case 'zerohop run -*'\n      case 'zerohop run *'\n"
      "        contains -- \"$before\" " +
      valued_options_of_run(commands) +
      "; or return 1\n    end\n    set before $word\n  end\n  test \"$path\" = \"$argv[1]\"\nend\n";
  for (const Command& command : commands) {
    const std::string start =
        "complete -c zerohop -n " + shell_quoted({"__zerohop_path " + shell_quoted({command.path})});
    for (const Entry& entry : command.subcommands) {
      out += start + " -f -a " + entry.words[0] + " -d " + shell_quoted({short_about(entry)}) + "\n";
    }
    if (is_in_python(command)) out += start + " -a " + shell_quoted({options_in_shell(command.path)}) + "\n";
    if (!command.positional.empty()) out += start + " -f -a " + shell_quoted({command.positional}) + "\n";
    for (const Entry& entry : command.options) {
      out += start;
      for (const std::string& word : entry.words)
        out += word[1] == '-' ? " -l " + word.substr(2) : " -s " + word.substr(1);
      const std::string values = values_of(entry);
      if (!entry.value.empty()) out += values.empty() ? " -r" : " -x -a " + shell_quoted({values});
      out += " -d " + shell_quoted({short_about(entry)}) + "\n";
    }
  }
  return out;
}

}  // namespace

std::string completion(const CLI::App& app, const std::string& shell) {
  const std::vector<Command> commands = commands_of(app, app.get_name());
  return shell == "bash"  ? completion_of_bash(commands)
         : shell == "zsh" ? completion_of_zsh(commands)
                          : completion_of_fish(commands);
}

std::vector<std::pair<std::string, std::string>> manual_pages(const CLI::App& app) {
  std::vector<std::pair<std::string, std::string>> pages;
  for (const Command& command : commands_of(app, app.get_name())) {
    pages.emplace_back(replaced(command.path, " ", "-") + ".1", page_of(command));
  }
  return pages;
}

void add_completion_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("completion", "Completion for a shell, to be sourced: bash, zsh or fish.");
  command->footer(
      "  source <(zerohop completion bash)                                             this shell\n"
      "  zerohop completion fish > ~/.config/fish/completions/zerohop.fish             every new one");
  const auto shell = std::make_shared<std::string>();
  command->add_option("shell", *shell, "bash, zsh or fish")->required()->check(CLI::IsMember({"bash", "zsh", "fish"}));
  command->callback([&app, shell] { std::fputs(completion(app, *shell).c_str(), stdout); });

  // For who installs it.
  CLI::App* manual = app.add_subcommand("manual", "Write the manual pages into a folder.")->group("");
  const auto folder = std::make_shared<std::string>();
  manual->add_option("folder", *folder)->required();
  manual->callback([&app, folder] {
    std::error_code failed;
    std::filesystem::create_directories(*folder, failed);
    for (const auto& [name, text] : manual_pages(app)) {
      if (!write_file(*folder + "/" + name, text, "manual")) exit_code = 1;
    }
  });
}

}  // namespace zh::tools
