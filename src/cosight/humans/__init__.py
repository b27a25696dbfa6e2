"""Studies with people: what they are shown and what they answered. Import the modules you need: nothing heavy loads.

* `study`      the design, its texts, what can be shown and who sees what
* `database`   participants and their answers
* `web`        the server, the participants' page and the experimenter's
* `results`    quality, agreement, gold labels, curated lists, export
* `simulated`  simulated participants, which every result calls simulated
"""
