"""Where participants and their answers are kept: SQLite or PostgreSQL.

* tables        the three tables, and how a database is opened
* store         reads at any time, writes in groups that are on the disk before anybody is told
* participants  who takes part; `drawing` gives them trials, `keeping` keeps their answers
* answers       the answers as trials; `progress` counts them, `roster` lists who gave them
"""
