// See draw.h.
#include "coll/analysis/draw.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <string_view>
#include <utility>

#include "coll/analysis/pairs.h"

namespace zh::coll {
namespace {

constexpr double kLeft = 110;  // names of nodes and ranks
constexpr double kTop = 66;    // title and legend
constexpr double kWidth = 1180;
constexpr double kNodeGap = 14;
constexpr int kRows = 5;
constexpr size_t kMostArrows = 500;  // more of them hide each other

constexpr const char* kNodeColor = "#2a6fbb";
constexpr const char* kNetColor = "#d9601a";
constexpr const char* kCopyColor = "#8a8f98";
constexpr const char* kReduceColor = "#3c9a5f";
constexpr const char* kSharedColor = "#8b5fbf";

[[gnu::format(printf, 2, 3)]] void append(std::string& out, const char* format, ...) {
  char text[1024];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  out += text;
}

/// Text as an SVG document may hold it.
std::string svg_text(std::string_view text) {
  std::string out;
  for (const char c : text) out += c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '&' ? "&amp;" : std::string(1, c);
  return out;
}

const char* drawn_place(Place place) {
  return place == Place::kInput ? "input" : place == Place::kOutput ? "output" : "scratch";
}

std::string range_text(Place place, uint64_t at, uint64_t bytes) {
  return std::string(drawn_place(place)) + " [" + std::to_string(at) + ", " + std::to_string(at + bytes) + ")";
}

class Picture {
 public:
  Picture(std::span<const Schedule> schedules, const Layout& layout, const Timeline& times)
      : schedules_(schedules), layout_(layout), times_(times), pairs_(pair_messages(schedules)) {
    // What a rank can do at once has a row of its own: sends above, receives below, those between nodes outside.
    row_ = layout.ranks() <= 16 ? 7 : layout.ranks() <= 40 ? 5 : 3;
    lane_ = kRows * row_ + (layout.ranks() <= 16 ? 8 : 4);
    top_.resize(layout.ranks());
    double y = kTop;
    for (uint32_t node = 0; node < layout.nodes(); ++node) {
      for (const uint32_t rank : layout.members(node)) {
        top_[rank] = y;
        y += lane_;
      }
      y += kNodeGap;
    }
    bottom_ = y;
    for (const Schedule& schedule : schedules) {
      messages_ += static_cast<size_t>(std::ranges::count(schedule.steps, StepKind::kSend, &Step::kind));
    }
    scale_ = times.end > 0 ? kWidth / times.end : 1;
  }

  std::string svg(const std::string& title) {
    append(out_,
           "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" font-family=\"sans-serif\">\n"
           "<defs>\n",
           kLeft + kWidth + 24, bottom_ + 34);
    for (const char* color : {kNodeColor, kNetColor}) {
      append(out_,
             "<marker id=\"m%s\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"7\" markerHeight=\"7\" "
             "orient=\"auto\"><path d=\"M0 0L8 4L0 8z\" fill=\"%s\"/></marker>\n",
             color + 1, color);
    }
    out_ += "</defs>\n<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n";
    append(out_, "<text x=\"12\" y=\"24\" font-size=\"15\" font-weight=\"bold\">%s</text>\n", svg_text(title).c_str());
    legend();
    lanes();
    // Arrows first: boxes stay readable on top of them.
    for (uint32_t rank = 0; rank < schedules_.size() && messages_ <= kMostArrows; ++rank) {
      for (uint32_t i = 0; i < schedules_[rank].steps.size(); ++i) arrow(rank, i);
    }
    for (uint32_t rank = 0; rank < schedules_.size(); ++rank) {
      for (uint32_t i = 0; i < schedules_[rank].steps.size(); ++i) box(rank, i);
    }
    return out_ + "</svg>\n";
  }

 private:
  [[nodiscard]] double x(double time) const { return kLeft + time * scale_; }
  [[nodiscard]] bool between(uint32_t rank, const Step& step) const {
    return layout_.node_of(rank) != layout_.node_of(step.peer);
  }
  [[nodiscard]] double row_of(uint32_t rank, const Step& step) const {
    const int outwards = step.message() ? (between(rank, step) ? 2 : 1) : 0;
    const int row = kRows / 2 + (step.kind == StepKind::kSend ? -outwards : outwards);
    return top_[rank] + row * row_ + (lane_ - kRows * row_) / 2;
  }
  [[nodiscard]] const char* color_of(uint32_t rank, const Step& step) const {
    if (step.kind == StepKind::kCopy) return kCopyColor;
    if (step.kind == StepKind::kReduceLocal) return kReduceColor;
    if (step.of_leaders) return kNetColor;
    if (step.shared()) return kSharedColor;
    return between(rank, step) ? kNetColor : kNodeColor;
  }

  void legend() {
    const std::pair<const char*, const char*> entries[] = {{kNodeColor, "message inside a node"},
                                                           {kNetColor, "message or step between nodes"},
                                                           {kCopyColor, "copy"},
                                                           {kReduceColor, "reduction"},
                                                           {kSharedColor, "shared by a node"}};
    double at = 12;
    for (const auto& [color, text] : entries) {
      append(out_, "<rect x=\"%.0f\" y=\"37\" width=\"12\" height=\"10\" fill=\"%s\"/>", at, color);
      append(out_, "<text x=\"%.0f\" y=\"46\" font-size=\"12\">%s</text>\n", at + 17, text);
      at += 40 + 7 * static_cast<double>(std::string_view(text).size());
    }
    append(out_,
           "<text x=\"%.0f\" y=\"46\" font-size=\"12\" fill=\"#666\">in each lane: sends above, work, receives below"
           "</text>\n",
           at);
  }

  void lanes() {
    for (uint32_t node = 0; node < layout_.nodes(); ++node) {
      const auto members = layout_.members(node);
      const double top = top_[members.front()];
      append(out_, "<rect x=\"8\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" rx=\"5\" fill=\"%s\"/>\n", top - 2,
             kLeft + kWidth, lane_ * static_cast<double>(members.size()) + 4, node % 2 == 0 ? "#f1f4f8" : "#f8f4ee");
      append(out_, "<text x=\"14\" y=\"%.1f\" font-size=\"11\" fill=\"#555\">node %u</text>\n", top + 11, node);
      for (const uint32_t rank : members) {
        append(out_, "<text x=\"%.1f\" y=\"%.1f\" font-size=\"%d\" text-anchor=\"end\">rank %u</text>\n", kLeft - 8,
               top_[rank] + lane_ / 2 + 4, lane_ > 20 ? 12 : 9, rank);
        append(out_, "<path d=\"M%.1f %.1fH%.1f\" stroke=\"#dde\"/>\n", kLeft, top_[rank] + lane_, kLeft + kWidth);
      }
    }
    // About twelve marks on the axis.
    double step = 1;
    while (times_.end / step > 12) step *= step < 2 || step > 4 ? 2 : 2.5;
    for (double t = 0; t <= times_.end; t += step) {
      append(out_, "<path d=\"M%.1f %.1fV%.1f\" stroke=\"#ccd\" stroke-dasharray=\"2 4\"/>", x(t), kTop - 4,
             bottom_ - 8);
      append(out_, "<text x=\"%.1f\" y=\"%.1f\" font-size=\"11\" text-anchor=\"middle\" fill=\"#555\">%g</text>\n",
             x(t), bottom_ + 6, t);
    }
    std::string axis = "time in logical units";
    if (messages_ > kMostArrows)
      axis += ". The arrows of " + std::to_string(messages_) +
              " messages are left out: a box tells its peer under the pointer";
    append(out_, "<text x=\"%.1f\" y=\"%.1f\" font-size=\"11\" fill=\"#555\">%s</text>\n", kLeft, bottom_ + 24,
           axis.c_str());
  }

  void box(uint32_t rank, uint32_t i) {
    const Step& step = schedules_[rank].steps[i];
    const Span span = times_.spans[rank][i];
    if (!step.message() && !step.of_leaders && step.bytes == 0) return;
    append(out_,
           "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" rx=\"1.5\" fill=\"%s\" stroke=\"#fff\" "
           "stroke-width=\"0.7\"><title>",
           x(span.start), row_of(rank, step), std::max(1.0, (span.end - span.start) * scale_), row_,
           color_of(rank, step));
    append(out_, "rank %u, step %u: %s</title></rect>\n", rank, i, svg_text(describe(step)).c_str());
  }

  void arrow(uint32_t rank, uint32_t i) {
    const Step& step = schedules_[rank].steps[i];
    if (step.kind != StepKind::kSend) return;
    const Span span = times_.spans[rank][i];
    const uint32_t partner = pairs_.partner[rank][i];
    const Step& receive = schedules_[step.peer].steps[partner];
    const char* color = color_of(rank, step);
    // From edge to edge of the two boxes, which hide nothing of it, and up to where the message has arrived.
    const double from = row_of(rank, step);
    const double to = row_of(step.peer, receive);
    append(out_,
           "<path d=\"M%.1f %.1fL%.1f %.1f\" stroke=\"%s\" stroke-width=\"1.1\" opacity=\"0.65\" fill=\"none\" "
           "marker-end=\"url(#m%s)\"/>\n",
           x(span.start), from + (from < to ? row_ : 0), x(times_.spans[step.peer][partner].end),
           to + (from < to ? 0 : row_), color, color + 1);
  }

  std::span<const Schedule> schedules_;
  const Layout& layout_;
  const Timeline& times_;
  Pairs pairs_;
  size_t messages_ = 0;
  std::vector<double> top_;  ///< of each rank's lane
  double row_, lane_, bottom_, scale_;
  std::string out_;
};

}  // namespace

std::string describe(const Step& step) {
  const std::string from = range_text(step.from, step.from_at, step.bytes);
  const std::string to = range_text(step.to, step.to_at, step.bytes);
  const std::string peer = "rank " + std::to_string(step.peer);
  const std::string group = step.of_leaders ? "the leaders" : "the node";
  const std::string start = std::string(drawn_place(step.to)) + " from " + std::to_string(step.to_at);
  switch (step.kind) {
    case StepKind::kCopy:
      return "copy " + from + " to " + to;
    case StepKind::kReduceLocal:
      return to + " = " + from + " op it";
    case StepKind::kSend:
      return step.bytes == 0 ? "signal " + peer : "send " + from + " to " + peer;
    case StepKind::kReceive:
      return step.bytes == 0 ? "await " + peer : "receive " + to + " from " + peer;
    case StepKind::kBcastRoot:
      return step.bytes == 0 ? "tell " + group : "bcast " + from + " to " + group;
    case StepKind::kBcastLeaf:
      return step.bytes == 0 ? "hear " + peer + " with " + group : "get " + to + " by bcast from " + peer;
    case StepKind::kReduceLeaf:
      return step.bytes == 0 ? "tell " + peer + " with " + group : "reduce " + from + " to " + peer;
    case StepKind::kReduceRoot:
      return step.bytes == 0 ? "hear " + group : to + " = " + from + " of " + group;
    case StepKind::kGatherLeaf:
      return "gather " + from + " to " + peer;
    case StepKind::kGatherRoot:
      return start + " = " + from + " and the parts of " + group;
    case StepKind::kScatterRoot:
      return "scatter what is in " + std::string(drawn_place(step.from)) + " from " + std::to_string(step.from_at) +
             " to " + group;
    case StepKind::kScatterLeaf:
      return "get " + to + " by scatter from " + peer;
    case StepKind::kBarrier:
      return "barrier of " + group;
    case StepKind::kAllreduce:
      return to + " = " + from + " of " + group + ", on all of them";
    case StepKind::kAllgather:
      return start + " = the parts of " + group + ", on all of them";
    case StepKind::kAlltoall:
      return start + " = the parts of " + group + " for this rank, for parts of " + drawn_place(step.from);
    case StepKind::kReduceScatter:
      return to + " = its part of what " + group + " combine";
    case StepKind::kScan:
      return to + " = " + from + " of " + group + " up to this rank";
    case StepKind::kExscan:
      return to + " = " + from + " of " + group + " before this rank";
  }
  return "";
}

std::string draw(std::span<const Schedule> schedules, const Layout& layout, const Timeline& times,
                 const std::string& title) {
  return Picture(schedules, layout, times).svg(title);
}

}  // namespace zh::coll
