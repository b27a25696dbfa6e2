"""Reports as static sites: `cosight report` and `cosight.report`.

* `report`      the call; writes the files of a site
* `parts`       which scores are computed
* `answers`     everyone's answers, for the browser of disagreements
* `pictures`    thumbnails and originals
* `rows_data`   score rows and tables as the pages show them
* `tables`      every table as CSV, JSON and Parquet
* `method`      how a report was made, and what it cites
* `shards`      data as classic scripts
* `static`      the pages, built from `web/`
"""

from cosight.reports.site.report import Report, report

__all__ = ["Report", "report"]
