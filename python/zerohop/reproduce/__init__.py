"""`zerohop reproduce`: every figure and table of the five papers, beside what the papers show.

    zerohop reproduce --list
    zerohop reproduce limic-10 ml-7 --quick
    zerohop reproduce --all --html out.html

figures.py says what each figure is and what stands for it here; measure.py, simulate.py, misses.py and programs.py make
its series; judge.py says whether the paper's finding holds; show.py, plots.py and page.py tell.
"""
