// See picture.h.
#include "tools/model/picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/options.h"
#include "coll/analysis/draw.h"

namespace zh::tools {
namespace {

using coll::svg_text;

constexpr double kBarsLeft = 150;  // names of collectives
constexpr double kWidth = 820;
constexpr double kBarsTop = 58;  // title
constexpr double kBar = 24;
constexpr double kStep = 34;
constexpr double kLetter = 6.4;  // width of one at 11 px
constexpr double kLegendWidth = 230;

// Readable under white text, and apart from each other without red beside green.
constexpr std::array kBarColors = {"#2a6fbb", "#d9601a", "#3c9a5f", "#7b5ea7", "#a3324c", "#5f6b7a",
                                   "#0f8b8d", "#8f6b1f", "#c2477f", "#3f4fa8", "#557a2b", "#9a5b3c"};

class Picture {
 public:
  Picture(uint64_t first_bytes, uint64_t last_bytes) : first_(first_bytes), last_(last_bytes) {}

  void bar(const CrossoverBar& bar, double y) {
    out_ += fmt::format("<text x=\"{:.0f}\" y=\"{:.0f}\" text-anchor=\"end\">{}</text>\n", kBarsLeft - 10, y + 16,
                        svg_text(bar.name));
    for (size_t i = 0; i < bar.takeovers.size(); ++i) {
      const Takeover& t = bar.takeovers[i];
      const bool is_last = i + 1 == bar.takeovers.size();
      stretch(t, place(t.from_bytes), is_last ? kBarsLeft + kWidth : place(bar.takeovers[i + 1].from_bytes), y);
    }
  }

  void axis(double y) {
    for (uint64_t bytes = first_; bytes <= last_; bytes *= 4) {
      const double x = place(bytes);
      out_ += fmt::format("<line x1=\"{0:.1f}\" y1=\"{1:.0f}\" x2=\"{0:.1f}\" y2=\"{2:.0f}\" stroke=\"#c9ced6\"/>\n", x,
                          kBarsTop - 6, y);
      out_ += fmt::format("<text x=\"{:.1f}\" y=\"{:.0f}\" text-anchor=\"middle\">{}</text>\n", x, y + 14,
                          format_size(bytes));
    }
  }

  /// Returns the height that it takes.
  double legend(double y) {
    const int columns = static_cast<int>((kBarsLeft + kWidth) / kLegendWidth);
    for (size_t i = 0; i < names_.size(); ++i) {
      const double x = 14 + kLegendWidth * static_cast<double>(static_cast<int>(i) % columns);
      const double at = y + 18.0 * static_cast<double>(static_cast<int>(i) / columns);
      out_ += fmt::format("<rect x=\"{:.0f}\" y=\"{:.0f}\" width=\"11\" height=\"11\" fill=\"{}\"/>\n", x, at - 10,
                          kBarColors[i % kBarColors.size()]);
      out_ += fmt::format("<text x=\"{:.0f}\" y=\"{:.0f}\">{}</text>\n", x + 17, at, svg_text(names_[i]));
    }
    return 18.0 * std::ceil(static_cast<double>(names_.size()) / columns);
  }

  [[nodiscard]] const std::string& text() const { return out_; }

 private:
  [[nodiscard]] double place(uint64_t bytes) const {
    const double whole = std::log10(static_cast<double>(last_) / static_cast<double>(first_));
    return kBarsLeft + kWidth * std::log10(static_cast<double>(bytes) / static_cast<double>(first_)) / whole;
  }

  const char* color_of(std::string_view algorithm) {
    const auto found = std::ranges::find(names_, algorithm);
    const auto index = static_cast<size_t>(found - names_.begin());
    if (found == names_.end()) names_.emplace_back(algorithm);
    return kBarColors[index % kBarColors.size()];
  }

  void stretch(const Takeover& t, double from, double to, double y) {
    out_ += fmt::format(
        "<g><title>{} from {}, {:.2f} µs there</title><rect x=\"{:.1f}\" y=\"{:.0f}\" width=\"{:.1f}\" "
        "height=\"{:.0f}\" fill=\"{}\" stroke=\"#ffffff\"/>",
        svg_text(t.algorithm), format_size(t.from_bytes), t.us, from, y, to - from, kBar, color_of(t.algorithm));
    if (kLetter * static_cast<double>(t.algorithm.size()) < to - from - 6) {
      out_ += fmt::format("<text x=\"{:.1f}\" y=\"{:.0f}\" text-anchor=\"middle\" fill=\"#ffffff\">{}</text>",
                          (from + to) / 2, y + 16, svg_text(t.algorithm));
    }
    out_ += "</g>\n";
  }

  uint64_t first_;
  uint64_t last_;
  std::string out_;
  std::vector<std::string> names_;  ///< of algorithms, in the order of their colours
};

}  // namespace

std::string crossover_svg(const std::string& title, std::span<const CrossoverBar> bars, uint64_t first_bytes,
                          uint64_t last_bytes) {
  Picture picture(first_bytes, last_bytes);
  const double below = kBarsTop + kStep * static_cast<double>(bars.size());
  picture.axis(below);
  for (size_t i = 0; i < bars.size(); ++i) picture.bar(bars[i], kBarsTop + kStep * static_cast<double>(i));
  const double height = below + 44 + picture.legend(below + 44);
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" viewBox=\"0 0 {0:.0f} {1:.0f}\" "
      "font-family=\"sans-serif\" font-size=\"11\">\n<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n"
      "<text x=\"14\" y=\"28\" font-size=\"14\">{2}</text>\n{3}</svg>\n",
      kBarsLeft + kWidth + 40, height, svg_text(title), picture.text());
}

}  // namespace zh::tools
