"""What people are shown: a study's files and who sees what.

* design         study.toml and its tables; `new` writes one, from defaults or from a published protocol
* texts          every sentence a participant sees
* trial_types    the five kinds of trials: what they show and record, and how they are simulated
* pool           everything that a study can show; `verify_images` checks the pictures before they are shown
* assignment     who sees what, in which order
"""
