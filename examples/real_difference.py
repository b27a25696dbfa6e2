"""Is the difference between two models real?

Both models saw the same images, so the difference is resampled as a pair. Planning tells how many trials a difference
of this size needs.
"""

import cosight

scores = cosight.compare("sample:cue-conflict", measure="ec", only="model:alexnet,model:vgg19", resamples=500)
row = scores.difference("model:alexnet", "model:vgg19", "ec")
print(f"difference in EC: {row.value:.3f} [{row.low:.3f}, {row.high:.3f}], p = {row.p:.3f}")

plan = cosight.plan(measure="ec", width=0.1, accuracy=(0.8, 0.7), value=0.35)
print(plan.question)
for line in plan.rows:
    print(f"{line.name}: {line.value:g} {line.note}")
