"""The server: pages, requests, images. `static/` is the page itself, built from web/ at the project's root.

* serving   a study on a port; `hosting` does it in a process of its own
* server    the application: `sessions` for participants, `admin` for the experimenter, `requests` what all share
* desk      what a server process works with; `images` as they are sent
"""
