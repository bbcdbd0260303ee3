"""All figures and tables of the papers, in the papers' order."""

from __future__ import annotations

from zerohop.reproduce.collectives import CC_FIGURES, ML_FIGURES, MODEL_FIGURES
from zerohop.reproduce.describe import Figure
from zerohop.reproduce.messages import HYBRID_FIGURES, LIMIC_FIGURES

FIGURES: tuple[Figure, ...] = (*HYBRID_FIGURES, *LIMIC_FIGURES, *ML_FIGURES, *CC_FIGURES, *MODEL_FIGURES)
