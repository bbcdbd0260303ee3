// See papers_picture.h.
#include "tools/model/papers_picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/options.h"
#include "coll/analysis/draw.h"

namespace zh::tools {
namespace {

using coll::svg_text;

constexpr double kPanel = 300;  // width and height of a panel with its labels
constexpr double kHigh = 230;
constexpr double kPanelsLeft = 44;
constexpr double kPanelsTop = 64;
constexpr double kWide = kPanel - 70;
constexpr double kPlot = kHigh - 60;
constexpr double kStepAt = 1;  // gains between two lines of the grid

constexpr std::array kCurveColors = {"#2a6fbb", "#d9601a", "#3c9a5f", "#7b5ea7"};

struct Panel {
  double x, y;  ///< of its plot's upper left corner
  double top;   ///< the gain there
  size_t sizes;

  [[nodiscard]] double across(size_t i) const {
    return x + (sizes < 2 ? kWide / 2 : kWide * static_cast<double>(i) / static_cast<double>(sizes - 1));
  }
  [[nodiscard]] double up(double gain) const { return y + kPlot * (1 - gain / top); }
};

std::string level(const Panel& p, double gain, const char* color, const char* dashes) {
  return fmt::format(
      "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\" stroke-dasharray=\"{}\"/>\n", p.x,
      p.up(gain), p.x + kWide, p.up(gain), color, dashes);
}

std::string axes(const Panel& p, const PaperFigure& f) {
  std::string out = fmt::format("<text x=\"{:.0f}\" y=\"{:.0f}\">{} {}x{}, paper {}</text>\n", p.x - 20, p.y - 10,
                                svg_text(f.id), f.nodes, f.ranks_per_node, svg_text(f.says));
  for (double gain = 0; gain <= p.top; gain += kStepAt) {
    out += level(p, gain, gain == 1 ? "#7a828e" : "#dfe3e8", "none");
    out += fmt::format("<text x=\"{:.0f}\" y=\"{:.1f}\" text-anchor=\"end\">{:.0f}</text>\n", p.x - 6, p.up(gain) + 4,
                       gain);
  }
  for (size_t i = 0; i < f.sizes.size(); ++i) {
    out += fmt::format("<text x=\"{:.1f}\" y=\"{:.0f}\" text-anchor=\"middle\">{}</text>\n", p.across(i),
                       p.y + kPlot + 16, format_size(f.sizes[i]));
  }
  return out + level(p, f.gain, "#a3324c", "5 4");
}

std::string curve(const Panel& p, const PaperRow& row, const char* color) {
  std::string points;
  for (size_t i = 0; i < row.points.size(); ++i) {
    points += fmt::format("{:.1f},{:.1f} ", p.across(i), p.up(row.points[i].linked.gain()));
  }
  return fmt::format(
      "<polyline fill=\"none\" stroke=\"{}\" stroke-width=\"2\" points=\"{}\"><title>{}, {}: {:.2f} at {}</title>"
      "</polyline>\n",
      color, points, svg_text(row.profile), row.cyclic ? "dealt out" : "in blocks", row.best().linked.gain(),
      format_size(row.best().bytes));
}

std::string legend(const std::vector<PaperRow>& rows) {
  std::string out;
  for (size_t i = 0; i < rows.size(); ++i) {
    const double x = kPanelsLeft + 210 * static_cast<double>(i);
    out += fmt::format(
        "<rect x=\"{0:.0f}\" y=\"36\" width=\"11\" height=\"4\" fill=\"{1}\"/>\n"
        "<text x=\"{2:.0f}\" y=\"42\">{3}, {4}</text>\n",
        x, kCurveColors[i % kCurveColors.size()], x + 17, svg_text(rows[i].profile),
        rows[i].cyclic ? "dealt out" : "in blocks");
  }
  return out;
}

}  // namespace

std::string papers_svg(std::span<const std::vector<PaperRow>> figures) {
  constexpr size_t kColumns = 3;
  std::string body;
  for (size_t n = 0; n < figures.size(); ++n) {
    const std::vector<PaperRow>& rows = figures[n];
    const PaperFigure& f = *rows[0].figure;
    double most = f.gain;
    for (const PaperRow& row : rows) most = std::max(most, row.best().linked.gain());
    const Panel panel{kPanelsLeft + kPanel * static_cast<double>(n % kColumns),
                      kPanelsTop + 20 + kHigh * static_cast<double>(n / kColumns), std::ceil(most), f.sizes.size()};
    body += axes(panel, f);
    for (size_t i = 0; i < rows.size(); ++i) body += curve(panel, rows[i], kCurveColors[i % kCurveColors.size()]);
  }
  if (!figures.empty()) body += legend(figures[0]);
  const double height = kPanelsTop + 20 + kHigh * std::ceil(static_cast<double>(figures.size()) / kColumns);
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" viewBox=\"0 0 {0:.0f} {1:.0f}\" "
      "font-family=\"sans-serif\" font-size=\"11\">\n<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n"
      "<text x=\"14\" y=\"22\" font-size=\"14\">Time before / time after, by the walk of mlog_nP+links; dashed: the "
      "paper's greatest</text>\n{2}</svg>\n",
      kPanelsLeft + kPanel * static_cast<double>(kColumns), height, body);
}

}  // namespace zh::tools
