"""Studies: what people are shown, and what they answered. Import the modules you need: nothing heavy comes along.

* what is shown     `design` (study.toml), `protocols`, `new`, `texts`, `trial_types`, `pool`, `assignment`
* who answers       `serving`, `server`, `sessions`, `participants`, `drawing`, `keeping`, `store`, `tables`, `images`
* what came of it   `answers` (as trials), `progress`, `admin`, `quality`, `exclusion`, `agreement`, `gold`, `curation`
* taking it away    `export`
"""
