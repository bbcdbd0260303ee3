// `zerohop model judge`.
#pragma once

namespace CLI {
class App;
}

namespace zh::tools {

void add_model_judge_command(CLI::App* model);

}  // namespace zh::tools
