// `zerohop model compare`.
#pragma once

namespace CLI {
class App;
}

namespace zh::tools {

void add_model_compare_command(CLI::App* model);

}  // namespace zh::tools
