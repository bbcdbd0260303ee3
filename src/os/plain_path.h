// Another name for a folder, for lists of paths that cannot hold every path. Called by `zerohop run`; refuses to know
// what lies in the folder.
#pragma once

#include <string>

#include "base/status.h"

namespace zh::os {

/// Whether LD_PRELOAD can hold the path: it separates at blanks and colons, and replaces what begins with '$'.
[[nodiscard]] bool is_plain_path(const std::string& path);

/// The path of a symbolic link to `folder`, in a folder of this user below TMPDIR or /tmp; made if it is not there. It
/// stays, as programs that the job starts find it in their environment.
Status link_plain_path(const std::string& folder, std::string* link);

}  // namespace zh::os
