// `zerohop model choose`.
#pragma once

namespace CLI {
class App;
}

namespace zh::tools {

void add_model_choose_command(CLI::App* model);

}  // namespace zh::tools
