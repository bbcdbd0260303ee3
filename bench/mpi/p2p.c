// The point-to-point benchmark, bench_p2p_<abi>: which sub-benchmarks run. Each is in a file of its own.
#include "bench.h"

static void run(void) {
  if (g_ranks == 2) {
    bench_pingpong();
    bench_first();
    bench_stream();
    bench_progress();
    bench_strided();
  } else {
    bench_stream();
  }
  bench_prtt();
  bench_many();
}

const Program g_program = {
    .name = "p2p",
    .schema = "zerohop-bench-p2p/1",
    .about = "point-to-point benchmark of one launch (start it with mpiexec -n 2 or more)",
    .options =
        "  --only LIST          "
        "latency,noreuse,first,queues,bandwidth,bidirectional,rate,overlap,skew,breakdown,strided "
        "(2 ranks);\n"
        "                       multipair,pairs,exchange,everybody (any number)\n",
    .sizes = "bytes",
    .tiny_sizes = 1,
    .size_step = 8,
    .size_most = 1 << 30,
    .by_page = 1,
    .without_page = "strided",
    .run = run,
};
