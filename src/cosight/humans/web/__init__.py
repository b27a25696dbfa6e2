"""The study's web server. `static/` is the built page of web/ at the project's root.

* server          the application, and serving it on a port
* connections     deadlines of requests, the bound on connections, the log
* sessions        the requests of participants; `admin` those of the experimenter
* server_context  what all requests share: study, database, authentication, bodies, error responses
* served_images   images as they are sent
"""
