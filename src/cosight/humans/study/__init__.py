"""What people are shown: a study's files, what they mean, and who gets what.

* design       study.toml and what it says (`parts`, `settings`); `new` writes one, `protocols` are published ones
* texts        every sentence a participant sees
* trial_types  the five kinds of trials: what they show, record and how they are simulated
* pool         all that a study can show (`sources`: what lies in its folders)
* assignment   who sees what, in which order (`spreading`: evenly)
"""
