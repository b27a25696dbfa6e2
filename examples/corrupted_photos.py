"""How does accuracy fall when photos are corrupted?

Images are corrupted with noise of four severities, with the draws that a stored set would have. In place of photos and
a network: faint stripes, and a function that tells horizontal from vertical. Needs `pip install 'cosight[stimuli]'`.
"""

import numpy as np

from cosight.stimuli import alter_batch, alteration

truths = np.arange(100) % 2  # horizontal, vertical
photos = []
for phase, truth in enumerate(truths):
    wave = np.round(127 + 4 * np.sin(np.arange(64) / 3 + phase)).astype(np.uint8)
    photos.append(np.tile(wave if truth else wave[:, None], (64, 1) if truth else (1, 64)))


def classify(image):
    """Return 1 if columns differ more than rows."""
    return image.mean(axis=0).std() > image.mean(axis=1).std()


print("severity of noise  accuracy")
for severity in range(1, 11, 3):
    noisy = alter_batch(photos, alteration("gaussian_noise", severity=severity), seed=0)
    print(f"{severity:17}  {np.mean([classify(image) for image in noisy] == truths):.2f}")
