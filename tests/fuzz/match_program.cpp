// See match_program.h.
#include "match_program.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <random>
#include <sstream>

#include "os/clock.h"
#include "unit/engine/storm_plan_support.h"

namespace zh::test {
namespace {

constexpr std::array<const char*, static_cast<size_t>(Act::kActs)> kNames = {
    "send",   "synchronous", "buffered",    "send-now",    "recv", "recv-now", "probe",
    "mprobe", "mrecv",       "cancel-send", "cancel-recv", "poll", "host"};

/// What a program does often; drawn once for each, so that queues grow long in some and stay short in others.
std::discrete_distribution<int> random_mix(std::mt19937_64& rng) {
  std::vector<double> weights = {8, 3, 3, 6, 14, 5, 3, 3, 3, 2, 3, 10, 1};
  for (double& w : weights) w *= static_cast<double>(1 + rng() % 4);
  return {weights.begin(), weights.end()};
}

bool fits(const Program& p) {
  const auto ranks = static_cast<int32_t>(p.ranks);
  return p.ranks >= 1 && p.ranks <= 8 && p.rank_bytes >= 1 << 20 &&
         std::all_of(p.ops.begin(), p.ops.end(), [&](const Op& o) {
           const bool sends = o.act <= Act::kSendNow;
           return o.rank < p.ranks && o.peer < ranks && o.peer >= (sends ? 0 : -1) && o.tag >= (sends ? 0 : -1) &&
                  o.context < kContexts && o.bytes <= uint64_t{16} << 20;
         });
}

}  // namespace

Program random_program(uint64_t seed) {
  std::mt19937_64 rng(seed);
  Program p;
  p.ranks = std::array<uint32_t, 6>{1, 2, 2, 3, 3, 4}[rng() % 6];
  p.threads = rng() % 2 == 0;
  p.cma = rng() % 3 != 0;
  p.skew = static_cast<int>(rng() % 2);
  p.single_copy_min = std::array<uint64_t, 3>{0, 2 << 10, 64 << 10}[rng() % 3];
  p.rank_bytes = uint64_t{2 << 20} << rng() % 4;
  const uint64_t acts = rng() % 8 == 0 ? 600 : 20 + rng() % 180;
  const uint64_t largest = rng() % 4 == 0 ? 3 << 20 : rng() % 2 == 0 ? 64 << 10 : 300;
  const uint64_t contexts = 1 + rng() % kContexts;
  const uint64_t tags = 1 + rng() % 3;
  auto mix = random_mix(rng);
  for (uint64_t i = 0; i < acts; ++i) {
    if (i % 100 == 99) mix = random_mix(rng);
    Op o;
    o.act = static_cast<Act>(mix(rng));
    o.rank = static_cast<uint32_t>(rng() % p.ranks);
    o.peer = static_cast<int32_t>(rng() % p.ranks);
    o.tag = static_cast<int32_t>(rng() % tags);
    o.context = static_cast<uint32_t>(rng() % contexts);
    o.bytes = random_bytes(rng, largest);
    if (o.act > Act::kSendNow) {
      if (rng() % 3 == 0) o.peer = -1;
      if (rng() % 3 == 0) o.tag = -1;
      if (rng() % 4 != 0) o.bytes = std::max(o.bytes, random_bytes(rng, largest));
    }
    if (o.act == Act::kCancelSend || o.act == Act::kCancelRecv) o.tag = static_cast<int32_t>(rng() % 16);
    o.strided = rng() % 5 == 0;
    if (o.strided) o.bytes = o.bytes / kElement * kElement;
    p.ops.push_back(o);
  }
  return p;
}

std::string to_text(const Program& p) {
  std::ostringstream out;
  out << "ranks " << p.ranks << " threads " << p.threads << " cma " << p.cma << " skew " << p.skew
      << " single_copy_min " << p.single_copy_min << " rank_bytes " << p.rank_bytes << "\n";
  for (const Op& o : p.ops) {
    out << o.rank << " " << kNames[static_cast<size_t>(o.act)] << " peer " << o.peer << " tag " << o.tag << " context "
        << o.context << " bytes " << o.bytes << (o.strided ? " strided" : "") << "\n";
  }
  return out.str();
}

bool read_program(const std::string& text, Program* out) {
  Program p;
  std::istringstream lines(text);
  std::string line;
  std::string word;
  while (std::getline(lines, line) && line.starts_with("#")) {
  }
  std::istringstream head(line);
  head >> word >> p.ranks >> word >> p.threads >> word >> p.cma >> word >> p.skew >> word >> p.single_copy_min >>
      word >> p.rank_bytes;
  if (!head) return false;
  while (std::getline(lines, line)) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream in(line);
    Op o;
    std::string act;
    in >> o.rank >> act >> word >> o.peer >> word >> o.tag >> word >> o.context >> word >> o.bytes;
    const auto name = std::find(kNames.begin(), kNames.end(), act);
    if (!in || name == kNames.end()) return false;
    o.act = static_cast<Act>(name - kNames.begin());
    o.strided = static_cast<bool>(in >> word);
    p.ops.push_back(o);
  }
  *out = std::move(p);
  return fits(*out);
}

Program minimised(Program program, const std::function<bool(const Program&)>& fails, uint64_t seconds) {
  const uint64_t end = os::now_ns() + seconds * 1'000'000'000;
  const auto keep_if_it_fails = [&](const Program& smaller) {
    if (os::now_ns() >= end || !fails(smaller)) return false;
    program = smaller;
    return true;
  };
  const auto simpler = [&](auto change) {
    Program p = program;
    change(p);
    keep_if_it_fails(p);
  };
  simpler([](Program& p) { p.threads = false; });
  for (size_t step = std::max<size_t>(program.ops.size() / 2, 1); step != 0; step /= 2) {
    for (size_t at = 0; at < program.ops.size();) {
      Program p = program;
      const auto first = p.ops.begin() + static_cast<ptrdiff_t>(at);
      p.ops.erase(first, first + static_cast<ptrdiff_t>(std::min(step, p.ops.size() - at)));
      if (!keep_if_it_fails(p)) at += step;
    }
  }
  simpler([](Program& p) { p.skew = 0; });
  simpler([](Program& p) { p.single_copy_min = 0; });
  simpler([](Program& p) { p.cma = true; });
  simpler([](Program& p) { p.rank_bytes = 8 << 20; });
  for (size_t i = 0; i < program.ops.size(); ++i) {
    simpler([i](Program& p) { p.ops[i].strided = false; });
    simpler([i](Program& p) { p.ops[i].context = 0; });
    for (const uint64_t bytes : {0, 8, 300, 4096}) {
      if (program.ops[i].bytes > bytes) simpler([i, bytes](Program& p) { p.ops[i].bytes = bytes; });
    }
  }
  return program;
}

}  // namespace zh::test
