"""The figures of the mlog_nP paper and the multicore collectives paper, as data; their clusters by models, too."""

from __future__ import annotations

from dataclasses import replace

from zerohop.reproduce.describe import (
    HYBRID,
    ITSELF,
    SIMULATED,
    Bench,
    Claim,
    Figure,
    K,
    M,
    algorithm,
    coll,
    drawing,
    impossible,
    less,
    run,
    tiles,
)

MODEL_ERRORS = "log3P and 2log{2,3}P beside strided broadcasts of 2 nodes of 2 ranks, namespaces with TCP between them"
BEATEN = "log3P by 2log{2,3}P"
ML_FIGURES = (
    drawing("ml-1", "figure 1", "vertical and horizontal memory hierarchy of a cluster", "docs/design/models.md"),
    run(
        "ml-2",
        "figure 2",
        "middleware's costs inside a node and between nodes",
        "overhead 49.2 % less inside, latency up to 87.9 %, both 41 %",
        "`zerohop tune` between two nodes of namespaces, whose network shows as overhead; within 10 points",
        Claim("overhead inside, % less", (39.2, 59.2), "overhead", kind="value"),
        Claim("latency of strides inside, % less at most", (77.9, 97.9), "latency", kind="value"),
        Claim("both inside, % less", (31, 51), "both", kind="value"),
        make="costs",
        minutes=2.0,
    ),
    *(
        run(
            f"ml-{n}",
            f"figure {n}",
            f"the {name} broadcast of 64 ranks, predicted and measured",
            f"mean errors: 2log{{2,3}}P {ours} %, log3P {theirs} %",
            MODEL_ERRORS,
            Claim("mean error of 2log{2,3}P, %", (0, ours), "2log{2,3}P", kind="value"),
            Claim(f"mean error of {BEATEN}'s", (1, None), BEATEN, kind="value"),
            make="errors",
            minutes=minutes,
            args={"algorithm": name},
        )
        for n, name, ours, theirs, minutes in ((3, "linear", 1.59, 5.64, 1.0), (4, "binomial", 2.03, 4.68, 1.0))
    ),
    drawing(
        "ml-5",
        "figure 5",
        "pseudo code of the hierarchical, tiled broadcast",
        "the schedule that runs",
        ("bcast", "-a", "hierarchical", "--nodes", "2", "-r", "8", "-b", "64K", "-c", "32K", "--as-jobs"),
    ),
    run(
        "ml-6",
        "figure 6",
        "a broadcast of 8 ranks on one node in tiles, up to 512 KiB",
        "8 KiB tiles are the best",
        "`hierarchical` in tiles",
        Claim("tile 8K by whole", (1, None), "tile 8K", "whole"),
        Claim("tile 8K by the best other tile", (1, None), "tile 8K", "whole", kind="best"),
        bench=coll("bcast", tiles("4K", "8K", "32K", "128K"), "1x8", "8K,64K,256K,512K", "--rotate-root"),
    ),
    run(
        "ml-7",
        "figure 7",
        "the same from 1 MiB on",
        "1 MiB tiles are the best",
        "`hierarchical` in tiles",
        Claim("tile 1M by whole", (1, None), "tile 1M", "whole"),
        Claim("tile 1M by the best other tile", (1, None), "tile 1M", "whole", kind="best"),
        bench=coll("bcast", tiles("8K", "64K", "512K", "1M"), "1x8", "2M,8M", "--rotate-root"),
    ),
    run(
        "ml-8",
        "figure 8",
        "broadcast from any root, 8 nodes of 8 ranks, MPICH2's and hierarchical in tiles",
        "16.8 to 24.7 % less time",
        "2 nodes of 4 ranks, namespaces with TCP between them, MPICH's way for MPICH2's; larger ones take too long "
        "there: ml-8-model",
        Claim("tiles of 8 KiB by the host's", (less(16.8), less(24.7)), "tile 8K", at=(8 * K, 64 * K), everywhere=True),
        under="mpich",
        bench=coll("bcast", (HYBRID, *tiles("8K")[1:]), "2x4", "8K,64K", "--rotate-root"),
    ),
)

BROADCASTS = (algorithm("bcast", "scatter-ring-allgather"), algorithm("bcast", "leader-ring"))
RING = {"new": "leader-ring", "old": "scatter-ring-allgather"}
REDUCTIONS = tuple(algorithm("allreduce", n) for n in ("single-reducer", "shmem-parallel", "shmem-cyclic"))
CYCLIC = {"new": "shmem-cyclic", "old": "single-reducer"}
MATMUL = Bench(("coll", "--only", "matmul"), ITSELF, ("1x8",), "64,128,512", x="param")
CC_FIGURES = (
    drawing(
        "cc-1", "figure 1", "the test of figure 2 (a): one message, copied by all ranks of a node", "cc-2a measures it"
    ),
    run(
        "cc-2a",
        "figure 2 (a)",
        "latency of 16 KiB with 1 to 8 readers of one shared buffer",
        "constant inside a socket, a step beyond",
        "readers of mapped memory at once on the cores of one cache, by `zerohop tune`",
        Claim("readers of one cache, slowest by one alone", (0.8, 1.25), "readers", kind="value"),
        Claim("readers of two caches, slowest by those of one", (1, None), "step", kind="value"),
        make="readers",
        minutes=1.0,
    ),
    run(
        "cc-2b",
        "figure 2 (b)",
        "reductions inside a node",
        "reduce-scatter and allgather are the fastest for large",
        "the same algorithms by messages, 8 ranks",
        Claim(
            "by pairwise exchange at 256 KiB", (1, None), "reduce-scatter-allgather", "recursive-doubling", (256 * K,)
        ),
        Claim("by one reducer at 256 KiB", (1, None), "reduce-scatter-allgather", "single-reducer", (256 * K,)),
        bench=coll(
            "allreduce",
            tuple(
                algorithm("allreduce", n) for n in ("single-reducer", "recursive-doubling", "reduce-scatter-allgather")
            ),
            "1x8",
            "1K,16K,256K",
        ),
    ),
    impossible(
        "cc-2c",
        "figure 2 (c)",
        "two pairs across a link between sockets: nonblocking, blocking, both ways",
        "blocking, in opposite directions, is the fastest",
        "it needs two sockets joined by a link of two directions and four processors bound to them",
    ),
    drawing(
        "cc-3",
        "figure 3",
        "scatter, then a ring among leaders, shared inside nodes",
        "the schedule that runs",
        ("bcast", "-a", "leader-ring", "--nodes", "4", "-r", "16", "-b", "64K", "-c", "8K", "--as-jobs"),
    ),
    drawing(
        "cc-4",
        "figure 4",
        "parallel and cyclic reduction in shared memory",
        "the schedule that runs",
        ("allreduce", "-a", "shmem-cyclic", "-r", "4", "-b", "64K", "--as-jobs"),
    ),
    run(
        "cc-5a",
        "figure 5 (a)",
        "broadcast on 64 nodes of 4 ranks, ranks in blocks and in turn",
        "up to 1.78 times",
        "2 nodes of 4 ranks, namespaces with TCP between them",
        Claim("leader-ring by the flat ring", (1.78, 1.78), **RING),
        bench=coll("bcast", BROADCASTS, "2x4 2x4:turn", "1M"),  # below it the paper's way "performs poorly"
    ),
    run(
        "cc-5b",
        "figure 5 (b)",
        "broadcast on 64 nodes of 8 ranks",
        "up to 1.90 times",
        "2 nodes of 8 ranks, in blocks, namespaces with TCP between them",
        Claim("leader-ring by the flat ring", (1.90, 1.90), **RING),
        bench=coll("bcast", BROADCASTS, "2x8", "256K"),
    ),
    impossible(
        "cc-5c",
        "figure 5 (c)",
        "broadcast on 4 nodes of 1 to 8 ranks, neighbours on one socket or not",
        "socket-block is faster below 8 ranks a node",
        "it compares placements on two sockets, and needs 4 nodes of which each has two",
    ),
    impossible(
        "cc-6a",
        "figure 6 (a)",
        "allreduce of one node of Opterons (NUMA)",
        "23 % less time",
        "it differs from cc-6b by its machine alone: cc-6b runs the algorithms and judges them once",
    ),
    run(
        "cc-6b",
        "figure 6 (b)",
        "allreduce of one node of Clovertown",
        "32 % less time",
        "8 ranks: staging areas in shared memory, against a reducer by messages (the paper: in shared memory, too)",
        Claim("shmem-cyclic by one reducer", (less(32), less(33)), **CYCLIC),
        bench=coll("allreduce", (HYBRID, *REDUCTIONS), "1x8", "64K,256K,1M"),
    ),
    run(
        "cc-6c",
        "figure 6 (c)",
        "alltoall by pairs of which both directions run at once",
        "15 % less time",
        "8 ranks: pairwise against all at once; both by messages",
        Claim("pairwise by linear", (less(15), less(15)), "pairwise", "linear"),
        bench=coll(
            "alltoall",
            (HYBRID, algorithm("alltoall", "linear"), algorithm("alltoall", "pairwise")),
            "1x8",
            "8K,64K,256K",
        ),
    ),
    run(
        "cc-7",
        "figure 7",
        "allgather on 64 nodes of 8 ranks",
        "up to 4 times",
        "2 nodes of 4 ranks, namespaces with TCP between them",
        Claim("leader-ring by the ring over all", (4.0, 4.0), "leader-ring", "ring"),
        bench=coll(
            "allgather",
            (HYBRID, algorithm("allgather", "ring"), algorithm("allgather", "leader-ring")),
            "2x4",
            "16K",
        ),
    ),
    run(
        "cc-8",
        "figure 8",
        "matrix multiplication that gathers B with one allgather, 512 ranks",
        "3 times at 512",
        "8 ranks on one node, host against zerohop: whole multiplications and their time in MPI_Allgather (comm_us); "
        "every result is verified",
        Claim("zerohop by the host at 512", (3, 3), HYBRID.name, at=(512,)),
        bench=(MATMUL, replace(MATMUL, metric="comm_us")),
    ),
)


def model(of: str, collective: str, nodes: int, ranks: int, before: tuple[str, ...], after: str, cases: tuple,
          gains: tuple[float, float], told: str, but: str = "", **how: object) -> Figure:  # fmt: skip
    """cases: size, and chunk of `after`; the old algorithms send whole messages. but: what is not as in the paper."""
    args = {"collective": collective, "nodes": nodes, "ranks": ranks, "before": before, "after": after, "cases": cases}
    args |= {"profile": "infiniband-ddr-like", "team": True, "any_root": False} | how  # most of its costs are assumed
    claim = Claim(f"{after} by the fastest before", gains, after, "before", everywhere=args["any_root"])
    here = f"walks of the schedules by mlog_nP with links, whose costs are a profile's{but}"
    return Figure(f"{of}-model", f"figure {of.split('-')[1]}", f"{collective} on {nodes} nodes of {ranks} ranks", told,
                  SIMULATED, here, make="model", args=args, claims=(claim,), minutes=2.0)  # fmt: skip


OLD_BCASTS = ("binomial", "scatter-ring-allgather")
MODEL_FIGURES = (
    model("cc-5a", "bcast", 64, 4, OLD_BCASTS, "leader-ring", ((M, 64 * K),), (1.78, 1.78), "up to 1.78"),
    model("cc-5b", "bcast", 64, 8, OLD_BCASTS, "leader-ring", ((64 * K, 64 * K), (M, 64 * K)), (1.9, 1.9), "up to 1.9"),
    impossible("cc-6b-model", "figure 6 (b)", "allreduce on one node of 8 ranks", "32 % less time",
               "no schedule is the old algorithm, one reducer in shared memory; one by messages is another"),
    model("cc-7", "allgather", 64, 8, ("recursive-doubling", "ring"), "leader-ring", ((K, 0), (4 * K, 0), (16 * K, 0)),
          (4, 4), "up to 4"),
    model("ml-8", "bcast", 8, 8, OLD_BCASTS, "hierarchical", ((8 * K, 8 * K), (64 * K, 8 * K), (M, M), (8 * M, M)),
          (less(16.8), less(24.7)), "16.8 to 24.7 % less",
          "; leaders pass tiles on by a binomial tree, where the paper's have MPICH2's broadcast of the whole",
          profile="gigabit-like", team=False, any_root=True),
)  # fmt: skip
