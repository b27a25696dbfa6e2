"""Participants and their answers in SQLite or PostgreSQL.

* schema         the three tables, and opening a database
* store          reads at any time, batched writes that are on the disk before they are acknowledged
* participants   who takes part; `assign_trials` gives them trials, `save_answers` writes their answers
* study_trials   the answers as trials; `progress` counts them and lists who gave them
"""
