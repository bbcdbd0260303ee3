"""Plots and fits of zerohop's results: reads what the zerohop command has measured, never measures."""
