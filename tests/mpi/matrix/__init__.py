"""Parts of run_matrix.py: launches, programs, covers, baselines."""
