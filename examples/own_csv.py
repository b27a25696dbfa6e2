"""Compare the answers of your own CSV file with published people.

One row per answer. Columns are named with `columns`; many common names are recognised without it.
"""

from pathlib import Path

import cosight

# three people who agree with the published subject 1 on the first images, as a laboratory's program might write them
published = cosight.trials.read("sample:edges").frame.filter(observer="human:subject-01").sort("image")
lines = ["vp;bild;antwort;richtig;ms"]
for person in ("anna", "bela", "cleo"):
    for index, row in enumerate(published.iter_rows(named=True)):
        answer = row["response"] if index % len(person) else "cat"
        lines.append(f"{person};{row['image']};{answer};{row['truth']};{600 + index}")
Path("answers.csv").write_text("\n".join(lines), encoding="utf-8")

columns = {"observer": "vp", "image": "bild", "response": "antwort", "truth": "richtig", "rt": "ms"}
mine = cosight.trials.read("answers.csv", columns=columns, experiment="edge", rt_unit="ms")
print(cosight.trials.summarise(mine).observers)
print(cosight.compare(mine, "sample:edges", only="model:resnet50,model:alexnet", measure="ec", resamples=200))
