"""Plots, fits, reports, the papers' figures and the rounds of whole applications; the command measures."""
