"""The figures and tables of the hybrid paper and the LiMIC paper, as data."""

from __future__ import annotations

from zerohop.reproduce.describe import (
    BIG,
    HYBRID,
    ITSELF,
    KERNEL,
    SHARED,
    WAYS,
    Arm,
    Claim,
    Figure,
    K,
    coll,
    drawing,
    impossible,
    less,
    p2p,
    run,
)

BY_KERNEL = {"new": KERNEL.name, "old": SHARED.name}
BY_HYBRID = {"new": HYBRID.name, "old": SHARED.name}


def distance(letter: str, level: str, shows: str, headline: str, first: int, gain: float | None) -> Figure:
    claims = [Claim("kernel copy overtakes shared memory at", (first, first), kind="from", **BY_KERNEL)]
    if gain is not None:
        claims.append(Claim("kernel copy's bandwidth by shared memory's", (gain, gain), **BY_KERNEL))
    here = "one pair at this distance (the paper: four at once), windows of 64 buffers; as many as fit into 64 MiB"
    # From far below the papers' thresholds on, or too early an overtaking could not be seen.
    sizes = "64,256,512,1K,2K,4K,16K,32K,64K,256K,1M"
    bench = p2p("bandwidth", sizes=sizes, pair=level, bandwidth=True)
    return run(f"hybrid-2{letter}", f"figure 2 ({letter})", shows, headline, here, *claims, bench=bench)


AWARE = Arm("kernel copy, skew aware", KERNEL.options.replace("skew=0", "skew=1"))
SKEW = p2p("skew", (SHARED, KERNEL, AWARE), x="param", metric="c3_us")
ALLTOALL = coll("alltoall", ITSELF, "2x2 4x2", "8,64,1K,4K,16K,64K")

HYBRID_FIGURES = (
    drawing(
        "hybrid-1",
        "figure 1",
        "two sockets of four cores, of which two share a cache",
        "`zerohop info` and `zerohop bench raw --lines` tell this machine's",
    ),
    distance(
        "a", "cache", "bandwidth of pairs that share a cache", "shared memory is faster up to 32 KiB", 64 * K, None
    ),
    distance("b", "socket", "the same, inside a socket", "kernel copy from 2 KiB on, up to 70 % more", 2 * K, 1.70),
    distance("c", "sockets", "the same, between sockets", "kernel copy from 1 KiB on, up to 98 % more", K, 1.98),
    run(
        "hybrid-3",
        "figure 3",
        "what the reuse of buffers changes",
        "kernel copy gains more of it than shared memory",
        "ping-pong with one buffer on each side, and rotating over 32 MiB of them (the paper: bandwidth)",
        Claim("kernel copy's gain with reuse by that without", (1, None), at=(16 * K,), kind="reuse", **BY_KERNEL),
        bench=p2p("latency,noreuse", (SHARED, KERNEL), sizes=BIG),
    ),
    run(
        "hybrid-4",
        "figure 4",
        "level 2 cache misses of shared memory and kernel copy",
        "about 7 % fewer above 16 KiB",
        "misses of a ping-pong's message",
        Claim("shared memory's misses by kernel copy's", (1.07, 1.07), at=(64 * K,), **BY_KERNEL),
        make="message_misses",
        minutes=0.1,
    ),
    drawing(
        "hybrid-5",
        "figure 5",
        "the benchmark of skew: a producer that computes c1, a consumer that computes c2",
        "`zerohop bench p2p --only skew` is it; hybrid-6 and hybrid-7 run it",
    ),
    run(
        "hybrid-6",
        "figure 6",
        "the producer's time c3 over the consumer's c2, 64 messages of 16 KiB",
        "kernel copy grows with c2, shared memory stays",
        "the paper's benchmark with its sizes",
        Claim("growth of kernel copy, by 64 times c2's", (0.8, 1.2), KERNEL.name, kind="slope"),
        Claim("growth of shared memory", (-0.1, 0.1), SHARED.name, kind="slope"),
        bench=SKEW,
    ),
    run(
        "hybrid-7",
        "figure 7",
        "the same with thresholds that follow the skew",
        "close to shared memory",
        "the paper's benchmark with its sizes",
        Claim("growth with the switch", (-0.1, 0.1), AWARE.name, kind="slope"),
        bench=SKEW,
    ),
    *(
        run(
            f"hybrid-8{letter}",
            f"figure 8 ({letter})",
            f"MPI_{name.capitalize()} of 8 ranks on one node",
            f"up to {percent} % less time than shared memory",
            "the same by `zerohop bench coll` instead of IMB",
            Claim(f"{name}: hybrid by shared memory alone", (less(percent), less(percent)), **BY_HYBRID),
            bench=coll(name, WAYS, "1x8", "1K,8K,64K,256K"),
        )
        for letter, name, percent in (("a", "alltoall", 60), ("b", "allgather", 28), ("c", "allreduce", 21))
    ),
    run(
        "hybrid-9a",
        "figure 9 (a)",
        "applications of 8 ranks on one node, class B",
        "IS 17 %, FT 8 %, PSTSWM 14 % less",
        "IS and FT of class A (the paper: B) by `zerohop bench apps`, zerohop with shared memory alone against its "
        "defaults; PSTSWM is not here",
        Claim("IS", (less(17), less(17)), "is"),
        Claim("FT", (less(8), less(8)), "ft"),
        make="programs",
        minutes=1.5,
        args={"apps": "is,ft", "classes": "A", "value": "ratio", "against": SHARED},
    ),
    run(
        "hybrid-9b",
        "figure 9 (b)",
        "the other applications",
        "under 5 % less time",
        "CG and MG of class A (the paper: B) and HPL by `zerohop bench apps`, zerohop with shared memory alone "
        "against its defaults; LU, BT and SP are not here",
        # "Under 5 %" is a bound on both sides: a value, of which more is as wrong as less.
        *(Claim(name.upper(), (1 / less(5), less(5)), name, kind="value") for name in ("cg", "mg", "hpcc HPL")),
        make="programs",
        minutes=5.0,
        args={"apps": "cg,mg,hpcc", "classes": "A", "value": "ratio", "against": SHARED},
    ),
    impossible(
        "hybrid-10a",
        "figure 10 (a)",
        "level 2 cache misses of the applications of figure 9 (a)",
        "fewer with the hybrid way",
        "it needs hardware counters of whole runs: cachegrind sees neither the kernel's copy nor the lines that "
        "another processor takes away",
    ),
    impossible("hybrid-10b", "figure 10 (b)", "the same of the others", "fewer with the hybrid way", "as hybrid-10a"),
    impossible(
        "hybrid-11",
        "figure 11",
        "applications of 64 ranks on 8 nodes, class C",
        "PSTSWM 6 % less time",
        "it needs 8 machines of 8 processors and a network: namespaces of this one would share its processors "
        "and measure who waits for them",
    ),
    run(
        "hybrid-t1",
        "table 1",
        "shares of message sizes of each application, 8 ranks on one node",
        "IS: 44 % below 1 KiB, 15 % to 32 KiB, 41 % above 1 MiB",
        "IS and MG of class B, as the paper's, by zerohop's counters, within 5 points; collectives "
        "count as the messages they were there; FT and CG take too long here",
        *(
            Claim(f"{app.upper()}: % of messages {name}", (max(0, share - 5), share + 5), f"{app} {name}", kind="value")
            for app, shares in (
                ("is", (44, 15, 0, 41)),
                ("mg", (52, 28, 20, 0)),
            )
            for name, share in zip(("below 1K", "1K-32K", "32K-1M", "above 1M"), shares, strict=True)
        ),
        make="programs",
        minutes=1.5,
        args={"apps": "is,mg", "classes": "B", "value": "sizes"},
    ),
)

LIMIC_FIGURES = (
    drawing("limic-1", "figure 1", "a message through the network card's loopback", "zerohop has no such way"),
    drawing(
        "limic-2",
        "figure 2",
        "memory transactions of a message through shared memory",
        "docs/design/point-to-point.md: cells",
    ),
    drawing("limic-3", "figure 3", "memory transactions of a copy by the kernel", "docs/design/copying.md: one copy"),
    drawing("limic-4", "figure 4", "earlier designs, tied to a library", "no counterpart"),
    drawing("limic-5", "figure 5", "LiMIC below any library", "include/zerohop/zerohop.h is such an interface"),
    drawing(
        "limic-6", "figure 6", "mapping of a buffer by kiobufs", "docs/kernel-module.md: memory; figure 8 has its cost"
    ),
    run(
        "limic-7",
        "figure 7, section 4.3",
        "a copy by whoever arrives later, instead of by the receiver or in its wait",
        "the later one's: whoever waits is served while the other computes",
        "the share of the transfer that is hidden behind a computation between MPI_Irecv and MPI_Wait",
        Claim(
            "time left in MPI_Wait, copied in the wait by copied by the later arriver",
            (1, None),
            "later arriver",
            "in wait",
            kind="gain",
        ),
        bench=p2p(
            "overlap",
            tuple(
                Arm(name, f"heap=0,single_copy=2K,copier={value}")
                for name, value in (
                    ("by receive", "receive"),
                    ("in wait", "wait"),
                    ("later arriver", "later"),
                    ("both", "both"),
                )
            ),
            sizes="64K,1M",
            metric="wait_us",
            variant="receiver_computes",
        ),
    ),
    run(
        "limic-4.4",
        "section 4.4 (no figure)",
        "coarse, medium and fine locks of the queues",
        "medium: coarse serializes copies, fine locks too often",
        "pairs of 8 ranks that send at once; no fine lock: who matches needs both queues of a receiver at once",
        Claim("medium by coarse", (1, None), "medium", "coarse"),
        bench=p2p(
            "multipair",
            tuple(Arm(name, f"queue_lock={name}") for name in ("coarse", "medium")),
            sizes="1K,16K,256K",
        ),
    ),
    run(
        "limic-8",
        "figure 8",
        "shares of trap, map, copy and rest in a message's time",
        "the copy dominates from some KiB on",
        "process_vm_readv, and the kernel module where it is loaded, whose shares are claimed then",
        Claim("share of the copy at 64 KiB, %", (50, 100), "copy at 64K", kind="value"),
        Claim("share of the copy at 1 KiB, %", (0, 50), "copy at 1K", kind="value"),
        make="breakdown",
        minutes=0.4,
        args={"parts": ("trap", "map", "copy", "rest")},
    ),
    run(
        "limic-9",
        "figure 9",
        "shares of pinning, mapping and queueing when a message is posted",
        "mapping and pinning dominate",
        "the kernel module, where it is loaded: process_vm_readv pins nothing before it copies",
        Claim("share of pinning at 64 KiB, %", (50, 100), "pin at 64K", kind="value"),
        make="breakdown",
        minutes=0.4,
        args={"parts": ("pin", "post"), "way": "/dev/zerohop"},
    ),
    run(
        "limic-10",
        "figure 10",
        "latency by size",
        "71 % less at 64 KiB",
        "ping-pong, against shared memory (the paper: shared memory and the card's loopback)",
        Claim("kernel copy's latency at 64 KiB", (less(71), less(72)), at=(64 * K,), **BY_KERNEL),
        bench=p2p("latency", sizes="64,1K,4K,16K,64K,256K"),
    ),
    run(
        "limic-11",
        "figure 11",
        "bandwidth by size, windows of 64",
        "405 % more at 64 KiB",
        "the same windows, against shared memory (the paper: shared memory and the card's loopback)",
        Claim("kernel copy's bandwidth at 64 KiB", (5.05, 5.05), at=(64 * K,), **BY_KERNEL),
        bench=p2p("bandwidth", sizes="64,1K,4K,16K,64K,256K", bandwidth=True),
    ),
    run(
        "limic-12",
        "figure 12",
        "MPI_Alltoall of small messages on 2x2 and 4x2 (two ranks on each node)",
        "no number for them",
        "nodes are namespaces with TCP between them",
        Claim("zerohop by the host at 1 KiB", (1, None), HYBRID.name, at=(K,)),
        bench=ALLTOALL,
    ),
    run(
        "limic-13",
        "figure 13",
        "the same of large messages",
        "24 % less at 64 KiB on 2x2",
        "nodes are namespaces with TCP between them",
        Claim("zerohop by the host at 64 KiB", (less(24), less(24)), HYBRID.name, at=(64 * K,), where="2x2"),
        bench=ALLTOALL,
    ),
    run(
        "limic-14",
        "figure 14",
        "NAS IS, classes A and B, on 1 to 8 nodes of two ranks",
        "up to 13.5 % less time",
        "2x1, that is two ranks on one node, class A, host against zerohop",
        Claim("IS", (less(12.66), less(13.5)), "is"),
        make="programs",
        minutes=1.0,
        args={"apps": "is", "classes": "A", "ranks": "2", "value": "ratio"},
    ),
    run(
        "limic-15",
        "figure 15",
        "time of IS inside MPI",
        "less, no number",
        "its time in MPI, class A on two ranks, host against zerohop",
        Claim("host's time in MPI by zerohop's", (1, None), "is"),
        make="programs",
        minutes=0.1,
        args={"apps": "is", "classes": "A", "ranks": "2", "value": "mpi_ratio"},
    ),
    run(
        "limic-16",
        "figure 16",
        "High Performance Linpack",
        "more Gflops, no number",
        "its time in Debian's hpcc on 8 ranks, order 500, host against zerohop by `zerohop bench apps hpcc`",
        Claim("HPL", (1, None), "hpcc HPL"),
        make="programs",
        minutes=0.5,
        args={"apps": "hpcc", "classes": "S", "value": "ratio"},
    ),
    *(
        run(
            f"limic-t{n}",
            f"table {n}",
            f"messages of IS class {letter} by size, two ranks on one node",
            f"44 of 1 to 8 KiB, 11 each in the two classes of {large}iB",
            "zerohop's counters; both large classes as one, as a collective's messages count with their mean size",
            Claim("messages of 1 to 8 KiB", (40, 48), "is 1K-8K", kind="value"),
            Claim(f"messages of {large}iB", (20, 24), f"is {large}", kind="value"),
            make="programs",
            minutes=0.5,
            args={"apps": "is", "classes": letter, "ranks": "2", "value": "counts"},
        )
        for n, letter, large in ((1, "A", "4M-16M"), (2, "B", "16M-64M"))
    ),
)
