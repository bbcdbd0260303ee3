// See plausible.h.
#include "tune/plausible.h"

#include <algorithm>
#include <cmath>

#include "tune/choice.h"

namespace zh::tune {
namespace {

struct PlausibleWay {
  const char* name;
  Curve DistanceClass::*curve;
  float fixed_us;  ///< what a message may cost beside its lines and bytes
};
constexpr float kLineWork = 2;      // stores, loads and a few instructions
constexpr float kSystemCalls = 10;  // two of them, with everything that watches them
constexpr PlausibleWay kWays[] = {
    {"cells", &DistanceClass::cells, kLineWork},
    {"cells_nt", &DistanceClass::cells_nt, kLineWork},
    {"cma_read", &DistanceClass::cma_read, kSystemCalls},
    {"cma_write", &DistanceClass::cma_write, kSystemCalls},
    {"cma_both", &DistanceClass::cma_both, 2 * kSystemCalls},
    {"mapped_one", &DistanceClass::mapped_one, kLineWork},
    {"mapped_both", &DistanceClass::mapped_both, kLineWork},
};

constexpr float kMostLineNs = 5000;        // several times that of the largest machines: what is above was a time slice
constexpr float kMessageLines = 20;        // that the ends exchange for one message
constexpr float kUsPerByte = 1.0F / 1000;  // 1 GB/s
constexpr float kFalls = 0.8F;             // a larger message may seem this much faster
constexpr float kSlower = 2;               // where one copy is compared with two
constexpr float kAgrees = 1.5F;            // two jobs, one point

bool possible(const Curve& curve, const PlausibleWay& way, float line_ns) {
  if (curve.worst_spread() > kMaxSpread) return false;
  for (uint32_t i = 0; i < curve.n; ++i) {
    const Curve::Point& p = curve.points[i];
    const float most = way.fixed_us + kMessageLines * line_ns / 1000 + kUsPerByte * static_cast<float>(p.bytes);
    if (p.us > most) return false;
    if (i > 0 && p.us < kFalls * curve.points[i - 1].us) return false;
  }
  return true;
}

/// Whether `one` is nowhere much slower than `other`, beyond some lines.
bool no_slower(const Curve& one, const Curve& other, float line_ns) {
  for (uint32_t i = 0; i < one.n && !other.empty(); ++i) {
    const Curve::Point& p = one.points[i];
    if (p.us > kSlower * other.us_at(p.bytes) + kMessageLines * line_ns / 1000) return false;
  }
  return true;
}

/// Whether the ranks were not where their level says: not bound, or moved by a virtual machine.
bool was_elsewhere(const DistanceClass& c, const node::LineBounds& bounds) {
  if (bounds.most_ns == 0) return false;
  return is_far(c.level) ? c.line_ns <= bounds.near_ns : c.line_ns >= bounds.far_ns;
}

float ratio_between(float a, float b) { return std::max(a, b) / std::min(a, b); }

bool agree(const Curve& a, const Curve& b) {
  if (a.n != b.n) return false;
  for (uint32_t i = 0; i < a.n; ++i) {
    if (a.points[i].bytes != b.points[i].bytes) return false;
    if (ratio_between(a.points[i].us, b.points[i].us) > kAgrees) return false;
  }
  return true;
}

Curve mean(const Curve& a, const Curve& b) {
  Curve out = a;
  for (uint32_t i = 0; i < out.n; ++i) {
    out.points[i].us = std::sqrt(a.points[i].us * b.points[i].us);
    out.points[i].spread = std::max(a.points[i].spread, b.points[i].spread);
  }
  return out;
}

}  // namespace

std::string drop_impossible(DistanceClass* c, const node::LineBounds& bounds) {
  const bool slept = c->line_ns > kMostLineNs;
  if (slept) c->line_ns = 0;
  if (slept || was_elsewhere(*c, bounds)) {
    for (const PlausibleWay& way : kWays) c->*way.curve = Curve{};
    return "all";
  }
  std::string dropped;
  const auto drop = [&](const PlausibleWay& way) {
    dropped += std::string(dropped.empty() ? "" : ", ") + way.name;
    c->*way.curve = Curve{};
  };
  for (const PlausibleWay& way : kWays) {
    Curve& curve = c->*way.curve;
    if (curve.empty()) continue;
    const bool mapped = way.curve == &DistanceClass::mapped_one || way.curve == &DistanceClass::mapped_both;
    if (!possible(curve, way, c->line_ns) || (mapped && !no_slower(curve, c->cells, c->line_ns))) drop(way);
  }
  return dropped;
}

LookVerdict judge(const DistanceClass& kept, const Look& look) {
  constexpr float kMovedLine = 2;
  if (look.line_ns <= 0 || ratio_between(look.line_ns, kept.line_ns) > kMovedLine) return LookVerdict::kUnknown;
  LookVerdict verdict = LookVerdict::kUnknown;
  const auto compare = [&](const Curve& curve, float us) {
    if (curve.empty() || us <= 0) return;
    if (ratio_between(curve.us_at(Look::kBytes), us) > kAgrees) {
      verdict = LookVerdict::kContradicts;
    } else if (verdict == LookVerdict::kUnknown) {
      verdict = LookVerdict::kHolds;
    }
  };
  compare(kept.mapped_both, look.mapped_both_us);
  compare(kept.cma_write, look.cma_write_us);
  return verdict;
}

bool wants_look(const DistanceClass& c, int64_t now) {
  return in_force(c) && (c.doubts > 0 || now - c.looked_at >= kLookEveryS || now < c.looked_at);
}

void note_look(DistanceClass* c, LookVerdict verdict, int64_t now) {
  c->looked_at = now;
  if (verdict == LookVerdict::kHolds) c->doubts = 0;
  if (verdict != LookVerdict::kContradicts || ++c->doubts < kMostDoubts) return;
  c->jobs = 0;
  c->attempts = 0;
  c->doubts = 0;
}

DistanceClass joined(const DistanceClass& kept, const DistanceClass& now) {
  DistanceClass out = now;
  if (now.cells.empty() || now.cells_nt.empty()) {
    out = kept;
  } else if (agree(kept.cells, now.cells) && agree(kept.cells_nt, now.cells_nt)) {
    for (const PlausibleWay& way : kWays) {
      const Curve& a = kept.*way.curve;
      const Curve& b = now.*way.curve;
      out.*way.curve = agree(a, b) ? mean(a, b) : Curve{};
    }
    // The ring is chosen among few sizes: the smaller one of two wastes no memory.
    out.ring_bytes = std::min(kept.ring_bytes, now.ring_bytes);
    out.line_ns = std::sqrt(kept.line_ns * now.line_ns);
    out.jobs = kept.jobs + 1;
  }
  out.attempts = kept.attempts + 1;
  return out;
}

}  // namespace zh::tune
