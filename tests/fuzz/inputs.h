// What zerohop reads that others may have written: for each kind a function that feeds it one input and says what was
// wrong with how it was taken ("" = nothing). Without GoogleTest, so that another driver can call them.
#pragma once

#include <string>

namespace zh::test {

/// A configuration file, and the same lines as an environment.
[[nodiscard]] std::string feed_options(const std::string& input);
/// The file of a calibration, and what is chosen by it.
[[nodiscard]] std::string feed_profile(const std::string& input);
/// The table of algorithms that `zerohop bench algorithms --save` writes.
[[nodiscard]] std::string feed_selection(const std::string& input);
/// A file of ZEROHOP_STATS, as `zerohop doctor --stats` reads it.
[[nodiscard]] std::string feed_statistics(const std::string& input);
/// The start of a segment that a rank finds when it joins: a byte that says how it is reached and how long it is, then
/// what it begins with. Refused, and with the reason, whatever it is.
[[nodiscard]] std::string feed_segment(const std::string& input);
/// The header that the rank expects there, for the corpus and as a start for mutations.
[[nodiscard]] std::string true_header();
/// A calibration file that is right on this machine.
[[nodiscard]] std::string true_profile();

}  // namespace zh::test
