"""Evaluate your own nn.Module and compare it with people.

A network of one layer learns handwritten digits from the training split of a small benchmark, answers the test split
and is compared with the simulated people of that benchmark. Needs `pip install 'cosight[demo]'`.
"""

import numpy as np
import torch

import cosight
from cosight.models import Preprocessing, as_model
from cosight.stimuli.sets import read_set

cosight.build("digits", "digits", counts="1=20,2=0,3=0,4=0,5=0,6=0,7=0,8=20,train=300,calibration=4,distractors=0")
stimuli = read_set("digits")
train = stimuli.frame.filter(split="train")
images = torch.tensor(np.stack([stimuli.pixels(file) for file in train["file"]])).unsqueeze(1) / 255  # grey
truths = torch.tensor(train["truth"].cast(int).to_numpy())

torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.AvgPool2d(4), torch.nn.Flatten(), torch.nn.Linear(3 * 8 * 8, 10))
images = images.expand(-1, 3, -1, -1)
optimiser = torch.optim.Adam(net.parameters(), lr=0.05)
for _ in range(60):
    optimiser.zero_grad()
    torch.nn.functional.cross_entropy(net(images), truths).backward()
    optimiser.step()

plain = Preprocessing(size=images.shape[-1], mean=0, std=1)
model = as_model(net.eval(), name="one-layer", preprocessing=plain, class_names=[str(digit) for digit in range(10)])
run = cosight.evaluate(model, on="digits", out="run")
print(cosight.score(run, measure="accuracy,hellinger", resamples=200))
