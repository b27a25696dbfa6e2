"""Studies: what people are shown, and what they answered. Import the modules you need: nothing heavy comes along.

* `study`      the design, its texts, what can be shown and who is shown what
* `database`   participants and answers, kept
* `web`        the server, the participants' page and the experimenter's
* `results`    quality, agreement, gold labels, curated lists, export
* `simulated`  participants who are not people, and say so
"""
