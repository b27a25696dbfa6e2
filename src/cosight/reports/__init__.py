"""Reports: what a person looks at, made from scores; nothing is computed here.

* grids   score rows as tables: on the terminal and on pages alike
* plots   figures (matplotlib)
* page    a static page with tables and figures
"""
