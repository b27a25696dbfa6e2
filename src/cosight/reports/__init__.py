"""Reports: tables, figures and pages, made from scores; nothing is computed here.

* `grids`    score rows as tables, for the terminal and for pages
* `plots`    colours and markers of figures
* `figures`  figures for papers (matplotlib)
* `site`     reports as static sites
"""
