// `zerohop bench matmul`: a matrix multiplication over MPI_Allgather under the host MPIs and zerohop side by side.
#pragma once

namespace CLI {
class App;
}

namespace zh::tools {

void add_bench_matmul_command(CLI::App& bench);

}  // namespace zh::tools
