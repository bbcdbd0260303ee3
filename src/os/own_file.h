// Which files zerohop may write over: those that it has written itself. Asked before statistics, timelines and pages
// are written or removed; refuses to know more of their forms than what they begin with.
#pragma once

#include <string>

namespace zh::os {

enum class FileForm { kStatistics, kTimeline, kPage };

/// Whether nothing of the user's is lost by a new file at `path`: there is none, an empty one, one of this form by
/// zerohop, or what is no regular file. A link is followed.
[[nodiscard]] bool may_overwrite(const std::string& path, FileForm form);

}  // namespace zh::os
