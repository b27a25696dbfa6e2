"""Building a benchmark's stimulus set from sources.

* `categories`, `checks`      the eight categories, their groups and splits; what must hold before a set is used
* `building`, `sources`       the frame of every builder: slots, candidates, disjoint pools
* `curation`                  lists of source images that curators rejected
* `digits`, `visalign`        the builders; `public` reads VisAlign's own set
* `panel`, `gold`             a simulated panel; people's answers in its place
* `datasheet`, `sheet`        a set in words and in pictures
"""
