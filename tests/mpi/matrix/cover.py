"""Which cells of the matrix are run: all valid ones, or few with every pair of values. Knows no meaning of them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

Cell = tuple


def full(dimensions: Sequence[Sequence], valid: Callable[[Cell], bool]) -> list[Cell]:
    return [cell for cell in itertools.product(*dimensions) if valid(cell)]


def pairs_of(cell: Cell) -> set[tuple]:
    return {(i, cell[i], j, cell[j]) for i, j in itertools.combinations(range(len(cell)), 2)}


def pairwise(
    dimensions: Sequence[Sequence], valid: Callable[[Cell], bool], cost: Callable[[Cell], float] = lambda cell: 1.0
) -> list[Cell]:
    """Valid cells that contain every pair of values which some valid cell contains; greedy, cheapest first, repeatable.

    The greedy choice is followed by a pass that drops cells whose pairs are all in others.
    """
    cells = full(dimensions, valid)
    missing = set().union(*(pairs_of(cell) for cell in cells)) if cells else set()
    wanted = set(missing)
    chosen: list[Cell] = []
    while missing:
        best = max(cells, key=lambda cell: (len(pairs_of(cell) & missing) / cost(cell), -cells.index(cell)))
        chosen.append(best)
        missing -= pairs_of(best)
    for cell in sorted(chosen, key=cost, reverse=True):
        others = [other for other in chosen if other != cell]
        if wanted <= set().union(*(pairs_of(other) for other in others), set()):
            chosen = others
    return chosen
