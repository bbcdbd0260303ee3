// `zerohop model papers`: what the papers' figures of clusters look like by the walk, beside the papers' own values.
#include "tools/model/papers_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/options.h"
#include "tools/cli/commands.h"
#include "tools/cli/text.h"
#include "tools/model/papers.h"
#include "tools/model/papers_picture.h"

namespace zh::tools {
namespace {

using nlohmann::json;

struct ModelPapersArguments {
  std::string only;
  bool as_json = false;
  bool as_markdown = false;
  std::string svg;
};

/// Of one figure, the rows by profile and placement.
using Rows = std::vector<PaperRow>;

const char* placement(const PaperRow& row) { return row.cyclic ? "dealt out" : "in blocks"; }

std::string paper_shape(const PaperFigure& f) { return fmt::format("{}x{}", f.nodes, f.ranks_per_node); }

json paper_times_json(const BeforeAndAfter& t) {
  return {{"before_us", t.before_us}, {"after_us", t.after_us}, {"gain", t.gain()}};
}

json row_json(const PaperRow& row) {
  json points = json::array();
  for (const PaperPoint& p : row.points) {
    points.push_back({{"bytes", p.bytes},
                      {"before", row.figure->before.at(p.bytes)},
                      {"chunk_bytes", row.figure->chunk(p.bytes)},
                      {"mlog_nP+links", paper_times_json(p.linked)},
                      {"mlog_nP", paper_times_json(p.unlinked)}});
  }
  json out = {{"profile", row.profile},
              {"cyclic", row.cyclic},
              {"points", std::move(points)},
              {"best_bytes", row.best().bytes},
              {"gain", row.best().linked.gain()},
              {"least_gain", row.worst().linked.gain()},
              {"shown", row.shown()},
              {"why", nullptr}};
  if (!row.why().empty()) out["why"] = row.why();
  return out;
}

void print_papers_json(const std::vector<Rows>& figures) {
  json out = {{"figures", json::array()}};
  for (const Rows& rows : figures) {
    const PaperFigure& f = *rows[0].figure;
    json figure = {{"figure", f.id},
                   {"title", f.title},
                   {"collective", name_of(f.collective)},
                   {"nodes", f.nodes},
                   {"ranks_per_node", f.ranks_per_node},
                   {"after", f.after},
                   {"any_root", f.any_root},
                   {"paper", f.says},
                   {"paper_gain", f.gain},
                   {"rows", json::array()}};
    for (const PaperRow& row : rows) figure["rows"].push_back(row_json(row));
    out["figures"].push_back(std::move(figure));
  }
  std::printf("%s\n", out.dump(2).c_str());
}

/// Calls f(placement, reason) once for each placement and reason of the rows.
template <typename F>
void each_reason(const Rows& rows, F&& f) {
  for (size_t i = 0; i < rows.size(); ++i) {
    const auto same = [&](const PaperRow& other) {
      return other.cyclic == rows[i].cyclic && other.why() == rows[i].why();
    };
    if (!rows[i].why().empty() && std::none_of(rows.begin(), rows.begin() + static_cast<long>(i), same)) {
      f(placement(rows[i]), rows[i].shown() ? "more" : "less", rows[i].why());
    }
  }
}

void print_markdown(const std::vector<Rows>& figures) {
  fmt::print(
      "| figure | nodes x ranks | profile | ranks lie | at | before | µs | after | µs | gain | least gain | without "
      "links "
      "| the paper |\n|---|---|---|---|---|---|---|---|---|---|---|---|---|\n");
  for (const Rows& rows : figures) {
    for (const PaperRow& row : rows) {
      const PaperFigure& f = *row.figure;
      const PaperPoint& p = row.best();
      const char* bold = row.shown() ? "**" : "";
      fmt::print("| {} | {} | {} | {} | {} | {} | {:.0f} | {} | {:.0f} | {}{:.2f}{} | {:.2f} | {:.2f} | {} |\n", f.id,
                 paper_shape(f), row.profile, placement(row), format_size(p.bytes), f.before.at(p.bytes),
                 p.linked.before_us, f.after, p.linked.after_us, bold, p.linked.gain(), bold, row.worst().linked.gain(),
                 p.unlinked.gain(), f.says);
    }
  }
  fmt::print("\n");
  for (const Rows& rows : figures) {
    fmt::print("- {}: {}.\n", rows[0].figure->id, rows[0].figure->title);
    each_reason(rows, [](const char* where, const char* how, std::string_view why) {
      fmt::print("  - {}, {}: {}\n", where, how, why);
    });
  }
}

void print_papers_table(const std::vector<Rows>& figures) {
  const size_t columns = output_columns();
  for (const Rows& rows : figures) {
    const PaperFigure& f = *rows[0].figure;
    const std::string title =
        fmt::format("{}: {}. {} nodes of {}. The paper: {}", f.id, f.title, f.nodes, f.ranks_per_node, f.says);
    fmt::print("{}\n", wrapped(title, 0, 2, columns));
    fmt::print("  {:<20}{:<9} {:>5} {:>9} {:>9} {:>6} {:>6} {:>8}\n", "profile", "ranks", "at", "before µs", "after µs",
               "gain", "least", "no links");
    for (const PaperRow& row : rows) {
      const PaperPoint& p = row.best();
      fmt::print("  {:<20}{:<9} {:>5} {:>9.0f} {:>8.0f} {:>6.2f} {:>6.2f} {:>8.2f}\n", row.profile, placement(row),
                 format_size(p.bytes), p.linked.before_us, p.linked.after_us, p.linked.gain(),
                 row.worst().linked.gain(), p.unlinked.gain());
    }
    each_reason(rows, [columns](const char* where, const char* how, std::string_view why) {
      std::fputs(hanging(fmt::format("  {}, {}: ", where, how), why, columns).c_str(), stdout);
    });
    fmt::print("\n");
  }
  std::fputs(
      hanging("",
              "Times by mlog_nP+links, at the size where the gain is greatest. A gain is time before / time after, "
              "\"least\" that of the worst size. What is less than half of the paper's gain, or half as much "
              "again, is explained. --json has all sizes.",
              columns)
          .c_str(),
      stdout);
}

int papers(const ModelPapersArguments& a) {
  std::vector<Rows> figures;
  for (const PaperFigure& figure : paper_figures()) {
    if (figure.id.starts_with(a.only)) figures.push_back(rows_of(figure));
  }
  if (figures.empty()) {
    std::string names;
    for (const PaperFigure& figure : paper_figures())
      names += fmt::format("{}{}", names.empty() ? "" : ", ", figure.id);
    fmt::print(stderr, "zerohop model papers: no figure begins with '{}'; there are {}\n", a.only, names);
    return 2;
  }
  if (!a.svg.empty() && !write_file(a.svg, papers_svg(figures), "model papers")) return 2;
  if (a.as_json) {
    print_papers_json(figures);
  } else if (a.as_markdown) {
    print_markdown(figures);
  } else {
    print_papers_table(figures);
  }
  return 0;
}

}  // namespace

void add_model_papers_command(CLI::App* model) {
  auto a = std::make_shared<ModelPapersArguments>();
  CLI::App* command = model->add_subcommand("papers", "The papers' figures of clusters, as the models have them.");
  command->footer(
      "Walks what the papers compared on clusters, the algorithms of their time and those that know nodes, with both\n"
      "built-in profiles and both placements of ranks, and sets the gain beside the paper's. It shows where the\n"
      "models do not have the gain, and says why. CC is the paper on multicore collectives, ML that on mlog_nP. It\n"
      "takes half a minute.\n\n"
      "  zerohop model papers\n"
      "  zerohop model papers --svg papers.svg    the gains by size\n"
      "  zerohop model papers --json              every size, with and without links\n"
      "  zerohop model papers --only \"ML\"         one paper, or one figure\n\n"
      "Ends with 0, or 2 if there is no such figure.");
  command->add_option("--only", a->only, "Figures whose name begins so, such as \"CC 5\"");
  command->add_flag("--json", a->as_json, "Print JSON");
  command->add_flag("--markdown", a->as_markdown, "Print the table of docs/design/models.md");
  command->add_option("--svg", a->svg, "Draw the gains by size, to this file");
  command->callback([a] { exit_code = papers(*a); });
}

}  // namespace zh::tools
