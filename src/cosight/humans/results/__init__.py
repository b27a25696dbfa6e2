"""What the answers are worth: who did the task (`quality`, `exclusion`, `chance`), gold labels (`gold`), curators'
lists (`curation`), and all of it as files (`export`). How far people agree is computed by `cosight.statistics`."""
