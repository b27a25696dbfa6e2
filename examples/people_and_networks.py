"""Compare 25 networks with ten people.

Error consistency on edge drawings: which network errs on the same images as people, how close it comes to people's
agreement with each other, and on which images it differs. The trials come with cosight; no extra is needed.
"""

import cosight
from cosight.statistics.verdict import verdict_text

scores = cosight.compare("sample:edges", measure="ec", resamples=200)
print(verdict_text(scores))

best = scores.best("ec")
print(f"{best.observer}: EC {best.value:.3f} [{best.low:.3f}, {best.high:.3f}] with people")

for row in cosight.disagree("sample:edges", only=best.observer, top=3).rows:
    print(f"{row.image}: people say {dict(row.people)}, the network says {row.response}")
