// `zerohop model papers`.
#pragma once

namespace CLI {
class App;
}

namespace zh::tools {

void add_model_papers_command(CLI::App* model);

}  // namespace zh::tools
