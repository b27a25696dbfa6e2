"""Error alignment: how alike people and models err, from single images to representations (Xu et al. 2024).

Any trials and runs can be compared; there is nothing to build.

* `families`   families of models, and kinds of domains
"""

from cosight.benchmarks.entry import Benchmark, PairComparison, ReportChart, ReportSection

__all__ = ["ERROR_ALIGNMENT"]

ERROR_ALIGNMENT = Benchmark(
    name="error-alignment",
    summary="How alike observers err: by image, class, confidence and representation.",
    source="Xu et al. 2024, Measuring Error Alignment for Decision-Making Systems",
    labels="model-vs-human-16",
    any_labels=True,
    experiment="that of the trials",
    humans="the people among the trials",
    needs="trials or runs of several observers",
    measures=(
        "accuracy",
        "error_consistency",
        "misclassification_agreement",
        "class_level_error_similarity",
        "linear_cka",
        "linear_cka_plain",
        "softmax_output_consistency",
        "softmax_output_consistency_on_errors",
    ),
    example="cosight score TRIALS --on error-alignment",
    comparison=PairComparison(preset="error-alignment"),
    sections={
        "table": ReportSection(
            "Error alignment",
            "How alike every two observers err, by image (EC, MA), class (CLES), confidence (SOC, SOCE) and "
            "representation (CKA), and how far these measures order pairs of observers alike.",
            (
                ReportChart("pairs", "Error consistency of every two observers", "error_consistency"),
                ReportChart("pairs", "Agreement of every two observers on joint errors", "misclassification_agreement"),
                ReportChart(
                    "pairs", "Class-level error similarity of every two observers", "class_level_error_similarity"
                ),
                ReportChart(
                    "pair-scatter",
                    "Do pairs that err on the same images also err in the same way?",
                    x="error_consistency",
                    y="misclassification_agreement",
                ),
                ReportChart(
                    "pair-scatter",
                    "Do pairs that err on the same images also err on the same classes?",
                    x="error_consistency",
                    y="class_level_error_similarity",
                ),
            ),
        )
    },
)
