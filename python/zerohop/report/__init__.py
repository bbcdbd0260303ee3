"""`zerohop report` and `zerohop compare`: what the statistics of a job (ZEROHOP_STATS) say, as a page and as text.

document.py reads and joins the files, summary.py and matrix.py compute the numbers, rules.py and advice.py make
sentences of them, sections.py arranges what is shown, page.py, drawings.py and text.py show it. Only page.py and
drawings.py need packages beyond Python's own.
"""

# What makes a job measure its time; the library's word for it, wherever it is named.
MEASURE = "zerohop run --report"
