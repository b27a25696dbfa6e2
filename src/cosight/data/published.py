"""The public data sets that cosight knows by name."""

from __future__ import annotations

from collections.abc import Mapping

from cosight.data.entry import Archive, DataSet, Download, data_sets

__all__: list[str] = []

_GITHUB = "https://codeload.github.com"
_RAW = "https://raw.githubusercontent.com"
_COMMITS = {  # the states whose files the digests are of
    "bethgelab/model-vs-human": "79ed7cd1d9ac3a114e71b6638f0a98bdd627316c",
    "wichmann-lab/error-consistency": "eb53bdb5d8e48166c56b9201842b19e8259506c5",
    "rgeirhos/texture-vs-shape": "ccd0c01d42c0a8a834e90ec141e7f24fa915dc23",
    "rgeirhos/generalisation-humans-DNNs": "0b88343536ec21acc2d635c0e325f827111e149a",
    "jcpeterson/cifar-10h": "48da312b193b82e6939ec20f23d1f09cbdd849c8",
    "hendrycks/robustness": "8190fe329f5f072a06e3a2aea02bb5dda69aed9f",
}
_EXPERIMENTS = (
    *("colour", "contrast", "cue-conflict", "edge", "eidolonI", "eidolonII", "eidolonIII", "false-colour", "high-pass"),
    *("low-pass", "phase-scrambling", "power-equalisation", "rotation", "silhouette", "sketch", "stylized"),
    "uniform-noise",
)
_FROST = {  # name: (bytes, sha256)
    "frost1.png": (1199930, "ff9f907860bd7a835d459e32f9d588062b7f61ee267343cc7222b56753a14755"),
    "frost2.png": (299002, "fe211a89b336999c207a852ce05818d4545d0b57c5beadd824b4cc9d9a9b6137"),
    "frost3.png": (299002, "2d0d50b4a9bb213f38b024ef7768731bb83cc08d2f26b5766bbc167cdfa0e504"),
    "frost4.jpg": (36734, "3f8b91ca1a9fa7167b09e773da53f5ae60d0a1fd88f02a783f6e328a72887f6e"),
    "frost5.jpg": (155150, "5fc6a19df4a429ba68abdcc8f8a4278d4c9f81c9ccafd2c92ab0c8cf8992ebd2"),
    "frost6.jpg": (90185, "1f92b2f48408748085b68dd81d816ef239f42cef3029c25d041fcb6760fb4f25"),
}


def _repository(name: str, folders: Mapping[str, str], files: int, digest: str) -> Download:
    """Return the download of folders of a repository on GitHub, packed by GitHub (so without a checksum of its own)."""
    commit = _COMMITS[name]
    return Download(f"{_GITHUB}/{name}/tar.gz/{commit}", f"{commit}.tar.gz", archive=Archive(folders, files, digest))


def _repository_file(name: str, file: str, size: int, sha256: str) -> Download:
    """Return the download of one file of a repository on GitHub."""
    return Download(f"{_RAW}/{name}/{_COMMITS[name]}/{file}", file.rsplit("/", 1)[-1], size, sha256)


for _entry in (
    DataSet(
        "model-vs-human",
        "Trials of people, 17 experiments, 85,120 trials",
        "model-vs-human",
        8_221_891,
        "CC BY 4.0 (cue-conflict, edge, silhouette), MIT (sketch), ImageNet's terms (others)",
        "Geirhos et al. 2021, Partial success in closing the gap between human and machine vision (NeurIPS)",
        "https://github.com/bethgelab/model-vs-human",
        (
            _repository(
                "bethgelab/model-vs-human",
                {f"raw-data/{name}": name for name in _EXPERIMENTS},
                90,
                "e21477cd7e14ef54d2fb36fc4bdb764eb90f582fdf80a92ddf64f1a3fc13d0de",
            ),
        ),
        use="cosight compare {folder}/cue-conflict --measure ec",
    ),
    DataSet(
        "error-consistency",
        "Trials of 10 people and 25 CNNs on cue-conflict, edges and silhouettes",
        "error-consistency",
        3_719_564,
        "CC BY 4.0",
        "Geirhos, Meding, Wichmann 2020, Beyond accuracy (NeurIPS)",
        "https://github.com/wichmann-lab/error-consistency",
        (
            _repository(
                "wichmann-lab/error-consistency",
                {f"raw-data/texture-shape_{name}": name for name in ("cue-conflict", "edges", "silhouettes")},
                105,
                "36a51c035d8425b07e3214d0b19044e99278cc0133f77fd3e31b71299891a7fc",
            ),
        ),
        use="cosight compare {folder} --measure ec --by experiment",
    ),
    DataSet(
        "texture-vs-shape",
        "Images of cue-conflict (1,280), edges and silhouettes (160 each)",
        "texture-vs-shape",
        138_029_091,
        "CC BY 4.0",
        "Geirhos et al. 2019, ImageNet-trained CNNs are biased towards texture (ICLR)",
        "https://github.com/rgeirhos/texture-vs-shape",
        (
            _repository(
                "rgeirhos/texture-vs-shape",
                {
                    "stimuli/style-transfer-preprocessed-512": "cue-conflict",
                    "stimuli/edges": "edges",
                    "stimuli/filled-silhouettes": "filled-silhouettes",
                },
                1600,
                "f672006c5b9d4fd8ef7aa61391c170a556c3c58e452aedef85440e0f69b65ed6",
            ),
        ),
        use="cosight evaluate timm:resnet50 --on {folder}/cue-conflict --out runs/resnet50",
    ),
    DataSet(
        "cifar-10h",
        "CIFAR-10's test images, with about 51 people's answers to each",
        "cifar10",
        31_530_128,
        "CC BY-NC-SA 4.0 (CIFAR-10: none stated)",
        "Peterson et al. 2019, Human uncertainty makes classification more robust (ICCV); Krizhevsky 2009",
        "https://github.com/jcpeterson/cifar-10h",
        (
            Download(
                "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
                "cifar-10-binary.tar.gz",
                170_052_171,
                "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
                Archive(
                    {"test_batch.bin": "test_batch.bin"},
                    1,
                    "4853df626e09e8cbcf44af62dc2c271e2a81af6d72e83322cd845fabc5c18203",
                ),
            ),
            _repository_file(
                "jcpeterson/cifar-10h",
                "data/cifar10h-counts.npy",
                800_128,
                "9b36b4550349af56c79083356312eb4af856cc5fd3caf1f669d40b9d0bbb69ff",
            ),
        ),
        use="cosight build cifar-10h {folder} sets/cifar-10h",
    ),
    DataSet(
        "visalign",
        "VisAlign's open test set, 900 images",
        "visalign",
        0,
        "MIT, as its paper says",
        "Lee et al. 2023, VisAlign (NeurIPS)",
        "https://huggingface.co/datasets/jiyounglee0523/VisAlign",
        by_hand="run hf download jiyounglee0523/VisAlign --repo-type dataset --local-dir {folder} (pip install "
        "huggingface_hub), then cosight build visalign OUT --public {folder}",
        use="cosight build visalign sets/visalign --public {folder}",
    ),
    DataSet(
        "laion-c",
        "LAION-C: 131,040 images, six distortions at five levels",
        "laion-c",
        0,
        "CC BY-NC 4.0, as its paper says",
        "Li et al. 2025, LAION-C (ICML)",
        "https://zenodo.org/records/14051887",
        record="https://zenodo.org/api/records/14051887",
        kept=r"[a-z_]+/intensity_level_[1-5]/[^/]+/[^/]+\.(?:JPEG|jpe?g|png)",
        use="cosight evaluate timm:resnet50 --on {folder} --out runs/laion-c",
    ),
    DataSet(
        "imagenet-c-frost",
        "The six photos of frost that ImageNet-C puts over images",
        "imagenet-c-frost",
        2_080_003,
        "Apache 2.0",
        "Hendrycks, Dietterich 2019, Benchmarking neural network robustness (ICLR)",
        "https://github.com/hendrycks/robustness",
        tuple(
            _repository_file("hendrycks/robustness", f"ImageNet-C/create_c/{name}", *facts)
            for name, facts in _FROST.items()
        ),
        use="cosight stimuli corrupt PHOTOS OUT --kind frost --textures {folder}",
    ),
    DataSet(
        "mean-power-spectrum",
        "Mean amplitude spectrum of grey images, for power equalisation",
        "mean-power-spectrum",
        401_488,
        "CC BY 4.0",
        "Geirhos et al. 2018, Generalisation in humans and deep neural networks (NeurIPS)",
        "https://github.com/rgeirhos/generalisation-humans-DNNs",
        (
            _repository_file(
                "rgeirhos/generalisation-humans-DNNs",
                "code/mean_power_spectrum_grey.npy",
                401_488,
                "e174b43499e15bb9be6dc798efd5a8565abd064feaf58f2f5e269e4795b4170c",
            ),
        ),
        use="cosight stimuli manipulate PHOTOS OUT --kind power-equalisation --spectrum "
        "{folder}/mean_power_spectrum_grey.npy",
    ),
    DataSet(
        "lpips-weights",
        "AlexNet's convolutions and LPIPS v0.1's heads in one file",
        "weights/lpips",
        9_884_624,
        "BSD-2-Clause",
        "Zhang et al. 2018, The unreasonable effectiveness of deep features (CVPR)",
        "https://github.com/richzhang/PerceptualSimilarity",
        (
            Download(
                None,
                "alexnet-lpips.safetensors",
                9_884_624,
                "06ceceabdd9bacb3cb39e31590a02ec27257aa369f125a7e6f30ad683197116f",
            ),
        ),
        by_hand="it is published in no such file; name a mirror with weights/lpips/alexnet-lpips.safetensors in it "
        "(--mirror DIR)",
    ),
):
    data_sets.add(_entry.name, _entry)
