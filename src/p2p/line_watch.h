// How far a peer is, learnt from envelopes while the job runs: virtual processors change their cores, and ranks that
// are not bound change their processors.
#pragma once

#include <algorithm>
#include <cstdint>

namespace zh::p2p {

enum class Distance : uint8_t { kUnknown, kNear, kFar };

/// The limits of `LineWatch`, in ticks.
struct LineLimits {
  int32_t near = 0;  ///< up to here two threads share a core's caches
  int32_t far = 0;   ///< from here on they do not
  int32_t most = 0;  ///< an envelope of this age has waited for its rank; 0: nothing is judged
};

/// Judges one pair by the ages of envelopes at their sight by a rank that was waiting for them. Many things make an age
/// larger, nothing makes it smaller than the line needs: the least of some is taken. The clocks of two processors may
/// differ (75 ns were seen between two virtual ones), so each end tells the other its least age, and their mean, from
/// which the difference falls out, is judged. Only what several judgements in a row say is believed.
class LineWatch {
 public:
  /// An age of an envelope from the peer, in ticks. True if there is something new to tell().
  bool add(int32_t age, const LineLimits& limits) {
    if (age < -limits.most || age > limits.most) return false;
    least_ = std::min(least_, age);
    if (++ages_ < kAges) return false;
    mine_ = least_;
    told_ = (told_ % 255 + 1);
    ages_ = 0;
    least_ = INT32_MAX;
    return true;
  }
  /// The latest least age as the word for the peer's judge(); never 0.
  [[nodiscard]] uint32_t word() const { return told_ << kAgeBits | static_cast<uint32_t>(mine_ + kBias); }

  /// `theirs` is the peer's word, or 0. True if the verdict has changed.
  bool judge(uint32_t theirs, const LineLimits& limits) {
    if (theirs == 0 || theirs == judged_ || told_ == 0) return false;
    judged_ = theirs;
    const int32_t their_age = static_cast<int32_t>(theirs & ((1U << kAgeBits) - 1)) - kBias;
    const int32_t line = (mine_ + their_age) / 2;
    const Distance seen = line <= limits.near  ? Distance::kNear
                          : line >= limits.far ? Distance::kFar
                                               : Distance::kUnknown;
    agreed_ = seen == seen_ ? agreed_ + 1 : 1;
    seen_ = seen;
    if (agreed_ < kJudgements || seen == verdict_ || seen == Distance::kUnknown) return false;
    verdict_ = seen;
    return true;
  }
  [[nodiscard]] Distance verdict() const { return verdict_; }

  static constexpr uint32_t kAges = 16;       ///< of which the least is told
  static constexpr uint32_t kJudgements = 3;  ///< alike, in a row

 private:
  static constexpr uint32_t kAgeBits = 24;
  static constexpr int32_t kBias = 1 << (kAgeBits - 1);

  int32_t least_ = INT32_MAX;
  int32_t mine_ = 0;
  uint32_t ages_ = 0;
  uint32_t told_ = 0;  ///< counts what was told, so that nothing is judged twice
  uint32_t judged_ = 0;
  uint32_t agreed_ = 0;
  Distance seen_ = Distance::kUnknown;
  Distance verdict_ = Distance::kUnknown;
};

}  // namespace zh::p2p
