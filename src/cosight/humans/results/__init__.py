"""What the answers are worth: who did the task (`quality`, `exclusion`, `chance`), how far people agree (`agreement`),
gold labels (`gold`), curators' lists (`curation`), and all of it as files (`export`)."""
