"""Reports: tables, figures and pages, made from scores; nothing is computed here.

* `grids`    score rows as tables, for the terminal and for pages
* `plots`    figures of pages, as SVG
* `figures`  figures for papers (matplotlib)
* `page`     a static page with tables and figures
"""
